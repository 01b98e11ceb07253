"""The ``parley`` command.

Importing this package loads nothing: each command's module is imported when that command is called, and what a server
needs (``parley.app``) is named by string and loaded on demand, so ``parley --help`` and reads answer at once.
"""

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Runs the command line of this process and exits with its code."""
    import sys

    if sys.argv[1:2] == ["hook"]:
        # Called after every tool of an agent, whose program waits: the little there is to parse needs no parser.
        from parley.programs.wake import answer, plain_call

        called = plain_call(sys.argv[2:])
        if called is not None:
            sys.exit(answer(*called))

    from parley.cli.root import run

    sys.exit(run(sys.argv[1:]))
