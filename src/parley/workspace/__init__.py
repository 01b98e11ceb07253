"""A workspace on disk: where it is, what its database looks like, and how to read it without a hub."""
