"""What a command may use up, and what happens to one that wants more."""

import json
from typing import Any

import pytest

from parley.sandbox import Jail
from parley.sandbox.view import interpreter
from tests.sandbox.conftest import SECONDS, Owner, patient

MIB = 1024 * 1024
FORK_UNTIL_REFUSED = """
import os, time
children = 0
try:
    while children < 200:
        if os.fork() == 0:
            time.sleep(60)
        children += 1
except BlockingIOError:
    print(children, flush=True)
"""


@pytest.mark.parametrize(
    ("code", "settings", "reason"),
    [
        pytest.param("import time; time.sleep(60)", {"deadline_seconds": 1.0}, "timeout", id="hang"),
        pytest.param("while True: pass", {"deadline_seconds": 1.0}, "timeout", id="busy loop"),
        pytest.param(
            "signal.pthread_sigmask(0, range(1, 65)); signal.pause()", {"deadline_seconds": 1.0}, "timeout", id="deaf"
        ),
        pytest.param("os.close(1); os.close(2); signal.pause()", {"deadline_seconds": 1.0}, "timeout", id="silent"),
        pytest.param(
            "while True:\n try: os.fork()\n except OSError: pass", {"deadline_seconds": 1.5}, "timeout", id="fork bomb"
        ),
        pytest.param("sys.stdout.write('x' * 100_000_000)", {}, "output", id="100 MB of output"),
        pytest.param("while True: print('line' * 1000)", {}, "output", id="endless output"),
        pytest.param("while True: print('line' * 1000, file=sys.stderr)", {}, "output", id="endless errors"),
    ],
)
def test_whoever_breaks_the_policy_is_ended(owner: Owner, code: str, settings: dict[str, Any], reason: str) -> None:
    answer = owner.run(code, **settings)
    assert answer["reason"] == reason


@pytest.mark.parametrize(
    ("code", "settings", "exit_code"),
    [
        pytest.param("os.abort()", {}, 128 + 6, id="crash"),
        pytest.param("ctypes.string_at(0)", {}, 128 + 11, id="bad address"),
        pytest.param("os._exit(7)", {}, 7, id="exit"),
        pytest.param("raise SystemExit(3)", {}, 3, id="quit"),
        pytest.param("while True: pass", {"cpu_seconds": 1, "deadline_seconds": 100.0}, 128 + 9, id="CPU time"),
    ],
)
def test_an_end_of_its_own_is_told(owner: Owner, code: str, settings: dict[str, Any], exit_code: int) -> None:
    answer = owner.run(code, **settings)
    assert answer["exit_code"] == exit_code


@pytest.mark.parametrize(
    ("code", "settings", "said"),
    [
        pytest.param(
            "try: bytearray(10 << 30)\nexcept MemoryError: print('refused', len(bytearray(64 << 20)))",
            {"memory_bytes": 256 * MIB},
            f"refused {64 * MIB}",
            id="10 GB of memory",
        ),
        pytest.param(FORK_UNTIL_REFUSED, {"processes": 8}, "7", id="processes"),
        pytest.param(
            "files = []\ntry:\n while True: files.append(open('/dev/null'))\nexcept OSError: print(len(files) + 3)",
            {"open_files": 32},
            "32",
            id="open files",
        ),
        pytest.param(
            """
written = 0
try:
    for name in range(100):
        with open(str(name), 'wb', buffering=0) as file:
            written += file.write(bytes(1024 * 1024))
except OSError as error:
    print(error.errno, written)
""",
            {"scratch_bytes": 8 * MIB},
            f"28 {8 * MIB}",
            id="scratch",
        ),
        pytest.param(
            "try: open('big', 'wb').truncate(1 << 40)\nexcept OSError as error: print(error.errno)",
            {"scratch_bytes": 8 * MIB},
            "27",
            id="size of a file",
        ),
        pytest.param(
            "n = 0\ntry:\n while n < 100_000: open(str(n), 'w').close(); n += 1\nexcept OSError: print(n < 5000)",
            {},
            "True",
            id="number of files",
        ),
    ],
)
def test_a_limit_is_where_the_policy_puts_it(owner: Owner, code: str, settings: dict[str, Any], said: str) -> None:
    answer = owner.run(code, **settings)
    assert answer["stdout"].strip() == said, answer["stderr"]


@pytest.mark.usefixtures("sandbox")
def test_processes_are_counted_for_each_jail_alone() -> None:
    command = [str(interpreter()), "-I", "-S", "-c", FORK_UNTIL_REFUSED + "time.sleep(60)"]
    policy = patient(processes=6)
    with Jail(command, policy) as one, Jail(command, policy) as other:
        assert [one.receive_line(SECONDS), other.receive_line(SECONDS)] == [b"5", b"5"]


def test_it_gives_way_to_others_and_leaves_no_core_dump(owner: Owner) -> None:
    code = "import resource; print(json.dumps([os.nice(0) >= 10, resource.getrlimit(resource.RLIMIT_CORE)]))"
    assert json.loads(owner.run(code)["stdout"]) == [True, [1, 1]]
