"""What the hub is compared with, driven by the same clients in the same run."""
