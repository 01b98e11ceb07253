"""Hooks: a user's own programs that run when something happens, in a sandbox, and say what the daemon should do."""
