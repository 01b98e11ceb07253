"""The HTTP API: a table of endpoints, their handlers, and the shell that every request passes."""
