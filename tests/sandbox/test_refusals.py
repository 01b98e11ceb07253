"""Everything that hostile code would try on a hub is refused in the sandbox, and works without it.

All attempts of one kind run in one jail, each in a process of its own; the hub looks at its treasure afterwards.
Without the sandbox it looks after each.
"""

import json
import os
import socket

import pytest

from tests.sandbox import attempts
from tests.sandbox.conftest import Owner

ATTEMPTS = {
    "database": attempts.DATABASE,
    "secret": attempts.SECRET,
    "connection": attempts.CONNECTION,
    "signal": attempts.SIGNAL,
    "done": attempts.DONE | attempts.DONE_BY_ROOT,
}


def harmless(owner: Owner, programs: dict[str, str], **policy: bool) -> dict[str, str]:
    """How each attempt failed, after making sure that none did any harm."""
    answer = owner.run(attempts.EACH + attempts.ALL, extra={"attempts": programs}, **policy)
    assert answer["harm"] == []
    said: dict[str, str] = json.loads(answer["stdout"])
    assert said.keys() == programs.keys()
    return said


@pytest.mark.parametrize("harm", ATTEMPTS)
def test_the_sandbox_refuses_every_attempt(owner: Owner, harm: str) -> None:
    said = harmless(owner, ATTEMPTS[harm])
    assert [name for name, text in said.items() if "Error" not in text] == []


@pytest.mark.parametrize("harm", ATTEMPTS)
def test_without_the_sandbox_every_attempt_works(owner: Owner, harm: str) -> None:
    programs = {
        name: code for name, code in ATTEMPTS[harm].items() if owner.uid == 0 or name not in attempts.DONE_BY_ROOT
    }
    results = owner.run_plainly(programs)
    assert {name: result["said"] for name, result in results.items() if harm not in result["harm"]} == {}


def test_a_jail_with_a_network_reaches_nothing_of_the_hub(owner: Owner) -> None:
    """Neither by TCP, in any of its forms, nor by UDP, nor by a unix socket: all of them share its loopback."""
    said = harmless(owner, {**attempts.CONNECTION, "mptcp": attempts.MPTCP, "smc": attempts.SMC}, network=True)
    refused = {name for name, text in said.items() if "PermissionError" in text}
    assert said.keys() - refused == set()


def test_a_jail_with_a_network_reaches_the_web(owner: Owner) -> None:
    """The other side of the refusals: a port of the web can be reached, on an address that nobody else uses."""
    address = (f"127.77.{os.getpid() % 250 + 1}.{owner.pid % 250 + 1}", 443)
    try:
        server = socket.create_server(address)
    except PermissionError:
        pytest.skip("an ordinary user cannot listen on a port of the web")
    with server:
        answer = owner.run(f"socket.create_connection({address!r}, 10); print('reached')", network=True)
    assert answer["stdout"] == "reached\n", answer


def test_a_file_of_the_hub_that_is_shown_can_be_read_and_nothing_else(owner: Owner) -> None:
    """Landlock and the mount forbid to write it, and seccomp to connect to a socket beside it."""
    folder = str(owner.folder)
    programs = {**attempts.DATABASE, **{name: attempts.CONNECTION[name] for name in ("unix socket", "unix datagram")}}
    read = "print(open(facts['token_file']).read())"
    answer = owner.run(attempts.EACH + attempts.ALL, extra={"attempts": {**programs, "read": read}}, readable=[folder])
    said: dict[str, str] = json.loads(answer["stdout"])
    visible = "token-" in said.pop("read")
    assert visible == (owner.uid != 0)  # root's jail has a user of its own, to whom a private file stays closed
    assert [name for name, text in said.items() if "Error" not in text] == []
    assert answer["harm"] in ([], ["secret"])
