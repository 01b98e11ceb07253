"""Typed bodies and frames of the protocols: what crosses a process boundary, and nothing else."""
