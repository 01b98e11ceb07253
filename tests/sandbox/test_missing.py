"""Where a jail cannot be built nothing runs, and the reason is told in words that help."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from parley.sandbox.missing import explain_landlock, explain_namespaces
from tests.sandbox.ordinary import REPOSITORY

ASK = """
import json
from parley.sandbox import JailError, Policy, missing, run
from parley.sandbox.view import interpreter
try:
    run([str(interpreter()), "-c", "print('it ran')"], Policy())
    reason = None
except JailError as error:
    reason = error.reason
print(json.dumps([reason, missing(), missing(network=True)]))
"""
NO_USER_NAMESPACES = """
import os
from parley.sandbox import system
uid, gid = os.getuid(), os.getgid()
system.unshare(system.CLONE_NEWUSER)
for name, content in (("setgroups", "deny"), ("uid_map", f"1000 {uid} 1"), ("gid_map", f"1000 {gid} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(content)
with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")
system.drop_capabilities()
"""
NO_LANDLOCK = """
import ctypes, errno, struct
from parley.sandbox import system
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | errno.{error}), (0x06, 0, 0, 0x7FFF0000)]
packed = b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
class Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
system.prctl(system.PR_SET_SECCOMP, 2, ctypes.byref(Filter(len(code), packed)))
"""
ANOTHER_PLATFORM = """
import ctypes, sys
def no_library(name, **options): raise TypeError("there is no such library here")
ctypes.CDLL = no_library
sys.platform = "darwin"
"""


def ask(preparation: str) -> tuple[str | None, list[str], list[str]]:
    """What a process says that was prepared like this: why a jail was not built, and what is missing."""
    done = subprocess.run(
        [sys.executable, "-c", preparation + ASK], capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("sandbox")
def test_nothing_is_missing_where_a_jail_can_be_built() -> None:
    reason, missing, _ = ask("")
    assert (reason, missing) == (None, [])


@pytest.mark.usefixtures("sandbox")
def test_a_machine_without_user_namespaces_names_the_setting() -> None:
    reason, missing, with_network = ask(NO_USER_NAMESPACES)
    assert reason == "unavailable"
    assert "sysctl -w user.max_user_namespaces=" in missing[-1]
    assert with_network == missing


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(("error", "words"), [("ENOSYS", "Linux 5.13"), ("EOPNOTSUPP", "lsm=landlock")])
def test_a_kernel_without_landlock_says_what_it_needs(error: str, words: str) -> None:
    reason, missing, _ = ask(NO_LANDLOCK.replace("{error}", error))
    assert reason == "unavailable"
    assert words in missing[0]


def test_another_platform_can_load_the_package_and_says_no() -> None:
    reason, missing, with_network = ask(ANOTHER_PLATFORM)
    assert reason == "unavailable"
    assert "needs Linux" in missing[0]
    assert with_network == missing


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSYS, "CONFIG_SECURITY_LANDLOCK"), (errno.EOPNOTSUPP, "lsm=landlock"), (None, "5.13")]
)
def test_a_missing_landlock_is_explained(code: int | None, words: str) -> None:
    assert words in explain_landlock(code)


def test_settings_that_forbid_namespaces_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    settings = {
        "kernel/unprivileged_userns_clone": "0",
        "user/max_user_namespaces": "1234",
        "kernel/apparmor_restrict_unprivileged_userns": "1",
    }
    for name, value in settings.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(value + "\n")
    assert [text.split("sysctl -w ")[1].split()[0] for text in explain_namespaces(tmp_path, 0)] == [
        "kernel.unprivileged_userns_clone=1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ]


def test_root_without_its_capability_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert "SYS_ADMIN" in explain_namespaces(tmp_path, 0)[0]
    assert explain_namespaces(tmp_path, 1 << 21) == ()
