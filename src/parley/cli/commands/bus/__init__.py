"""``parley bus``: agents of one user that talk on a LAN with no server between them.

One module for the keys of machines, one for pairing them, one for what they say.
"""

from parley.cli.commands.bus import keys, messages, pairing
from parley.cli.commands.bus.options import app

__all__ = ["app", "keys", "messages", "pairing"]
