"""One run of a hook in its jail: its script, a document on its standard input, and a few variables."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from parley.daemon.hooks.config import Hook
from parley.daemon.hooks.rules import hook_input
from parley.sandbox import Finished, Policy, run
from parley.wire.daemon_home import DaemonHome

_SHELL: Final = (Path("/bin"), Path("/usr/bin"))


def run_hook(home: DaemonHome, hook: Hook, document: dict[str, Any], environment: Mapping[str, str]) -> Finished:
    """Runs the hook to its end. Raises ``JailError`` when it did not come to one."""
    settings = hook.settings
    shell = hook.file.endswith(".sh")
    policy = Policy(
        readable=_SHELL if shell else (),
        files={hook.file: hook.script},
        hidden=(home.root,),
        network=settings.network_policy == "allow",
        deadline_seconds=settings.timeout_s,
        output_bytes=settings.output_size_limit,
    )
    command = ["/bin/sh", f"/app/{hook.file}"] if shell else [sys.executable, "-I", "-S", f"/app/{hook.file}"]
    variables = {"PATH": "/usr/bin:/bin", "PARLEY_HOOK_NAME": hook.name, **environment}
    return run(command, policy, stdin=hook_input(document, hook.redacted), environment=variables)
