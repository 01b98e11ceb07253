"""Plugins: what their authors import, the built-in ones, the worker that runs one, and the session that drives it."""
