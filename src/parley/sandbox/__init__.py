"""Runs a command under a policy in a locked-down process, with a deadline.

The command sees the interpreter, its libraries, what the policy names, ``/app`` with the policy's files, and
``/scratch``. It sees no other process and no network, unless the policy says so; it holds no descriptor and no variable
of its owner, and nothing that it starts outlives it.
"""

from parley.sandbox.jail import Jail
from parley.sandbox.missing import missing
from parley.sandbox.policy import JailError, Policy
from parley.sandbox.run import Finished, run
from parley.sandbox.view import python_command

__all__ = ["Finished", "Jail", "JailError", "Policy", "missing", "python_command", "run"]
