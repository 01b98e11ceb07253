"""What every store of a broker keeps: accepting, delivering, membership."""
