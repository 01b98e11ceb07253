"""Strangers at the doors of a hub, a daemon and two brokers."""
