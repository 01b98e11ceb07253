"""The daemon's commands: starting and stopping it, and what is done while it does not run."""
