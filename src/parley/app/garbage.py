"""How a process that serves for long looks for garbage: seldom, and not at what it was started with."""

import gc
from typing import Final

_NEW_OBJECTS: Final = 20_000
"""So many more objects than were given up, before the youngest are looked through. Python's own number is 700."""
_YOUNGER_LOOKS: Final = 20


def look_seldom() -> None:
    """To be called once a server has all that it needs.

    Its modules stay until it ends, so they are set aside. Of what a message needs, all but a little goes without the
    collector, which took a tenth of a daemon's time to find that out.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, _YOUNGER_LOOKS, _YOUNGER_LOOKS)
