"""Campaigns on real daemons and a real broker."""
