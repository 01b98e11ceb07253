"""Runs a command under a policy in a locked-down process, with a deadline."""
