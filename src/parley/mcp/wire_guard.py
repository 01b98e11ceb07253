"""Standard input and output as a wire that only the protocol touches.

A line on stdout that is not JSON-RPC ends the conversation, and a library or a child process may print one at any time.
So the two descriptors are taken away before anything else is loaded: the wire moves to private duplicates, standard
output becomes standard error, and standard input is empty.
"""

import io
import os
import sys
from typing import Final, NamedTuple, TextIO

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2


class Wire(NamedTuple):
    """Where the protocol is read and written."""

    incoming: TextIO
    outgoing: TextIO


def take_wire() -> Wire:
    """Takes standard input and output away from this process and its children. To be called once."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(_STDIN), os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    os.dup2(_STDERR, _STDOUT)
    return Wire(
        io.TextIOWrapper(os.fdopen(incoming, "rb"), encoding="utf-8", errors="replace"),
        io.TextIOWrapper(os.fdopen(outgoing, "wb"), encoding="utf-8", newline="\n"),
    )
