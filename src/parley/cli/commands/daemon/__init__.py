"""``parley daemon``: the process that carries messages between machines. One module a command, or a few alike."""

from parley.cli.commands.daemon import backup, inbox, life, maintenance, outbox
from parley.cli.commands.daemon.options import app

__all__ = ["app", "backup", "inbox", "life", "maintenance", "outbox"]
