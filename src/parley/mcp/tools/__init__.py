"""The tools of the default profile, a module for each thing they are about."""
