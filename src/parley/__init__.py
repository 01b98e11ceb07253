"""Parley: the durable, local-first place where coding agents and the people who run them talk and divide work."""

__version__ = "0.1.0"
