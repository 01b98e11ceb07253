"""One suite for each seam, run by every implementation of it."""
