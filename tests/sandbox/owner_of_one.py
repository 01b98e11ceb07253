"""A process that owns one jail and waits to be killed: ``python -m tests.sandbox.owner_of_one CODE ARGUMENT``."""

import signal
import sys

from parley.sandbox import Jail, Policy
from parley.sandbox.view import interpreter


def main() -> None:
    with Jail([str(interpreter()), "-I", "-S", "-c", *sys.argv[1:]], Policy()) as jail:
        print(jail.receive_line(30).decode(), flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
