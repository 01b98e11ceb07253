"""``parley daemon``: the process that carries messages between machines. One module a command, or a few alike."""

from parley.cli.commands.daemon import inbox, keeping, life, outbox, upkeep
from parley.cli.commands.daemon.options import app

__all__ = ["app", "inbox", "keeping", "life", "outbox", "upkeep"]
