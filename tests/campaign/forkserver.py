"""One process that has imported what campaigns need, and does nothing but fork.

There is one for all of them, and what it imports is a single list: whoever sets it alone takes it away from the others.
"""

import multiprocessing
from multiprocessing.context import ForkServerContext

_context = multiprocessing.get_context("forkserver")
_wanted: list[str] = []


def forkserver(*modules: str) -> ForkServerContext:
    """The context to start processes in, which have imported these modules already."""
    _wanted.extend(modules)
    _context.set_forkserver_preload(_wanted)
    return _context
