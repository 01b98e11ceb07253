"""What the commands of ``parley bus`` have in common."""

from typing import Final

from parley.cli.call import group

app = group("Let your machines on a LAN talk, with no server.")

STDIN: Final = "-"
"""Stands for what is read from standard input."""
