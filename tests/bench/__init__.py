"""The load driver itself: a driver that miscounts would make every figure and every campaign worthless."""
