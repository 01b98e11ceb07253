"""``parley bus``: machines of one user let each other in, by lines that are carried by hand."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from parley.app import bus
from parley.bus.home import BusHome
from parley.bus.standing import load_standing
from parley.core import limits
from parley.core.bus_errors import CertificateExpired
from parley.core.clock import ManualClock
from tests.bus.agents import DAY
from tests.cli.conftest import Parley, Ran, parley_process

On = Callable[..., Ran]


@pytest.fixture
def on(parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> On:
    """Calls a command on a machine, of which each is a folder."""

    def call(machine: str, *words: str | Path, stdin: str = "") -> Ran:
        monkeypatch.setenv("PARLEY_BUS_HOME", str(tmp_path / machine))
        return parley("bus", *words, stdin=stdin)

    return call


def told(ran: Ran) -> Any:
    assert ran.code == 0, (ran.stdout, ran.stderr)
    return ran.json


def refused(ran: Ran, code: str, ended: int) -> Any:
    assert (ran.code, ran.json["code"]) == (ended, code), ran.stdout
    assert ran.json["hint"]
    return ran.json.get("details", {})


def let_in(on: On, machine: str, *options: str) -> Any:
    """A machine, let in by the first one; what its own grant says."""
    line = on(machine, "request").stdout.strip()
    granted = on("first", "issue", line, *options)
    assert granted.code == 0, granted.stderr
    return told(on(machine, "accept", "--json", granted.stdout.strip()))


def test_the_first_machine_has_both_keys_and_is_let_in(on: On, tmp_path: Path) -> None:
    made = told(on("first", "keygen", "--json", "--role", "office"))
    assert (made["created"], made["user_key"], made["standing"]) == (True, True, "valid")
    assert made["certificate"]["role"] == "office"
    for name in ("user.key", "agent.key", "grant"):
        assert stat.S_IMODE((tmp_path / "first" / name).stat().st_mode) == 0o600
    again = told(on("first", "keygen", "--json", "--role", "other"))
    assert again == {**made, "created": False}
    shown = told(on("first", "whoami", "--json"))
    assert shown == {name: value for name, value in made.items() if name not in ("created", "renewed")}


def test_another_machine_is_let_in_by_two_lines(on: On) -> None:
    first = told(on("first", "keygen", "--json"))
    asked = told(on("second", "request", "--json"))
    assert asked["user"] is None
    assert told(on("second", "whoami", "--json"))["standing"] == "not_enrolled"
    granted = told(
        on("first", "issue", asked["request"], "--json", "--topic", "build", "--topic", "alerts", "--calls", "9")
    )
    assert (granted["agent"], granted["topics"], granted["calls_max"]) == (asked["agent"], ["alerts", "build"], 9)
    accepted = told(on("second", "accept", granted["grant"], "--json"))
    assert accepted == {"status": "ok", "accepted": "grant"} | {
        name: value for name, value in granted.items() if name not in ("status", "grant", "host")
    }
    shown = told(on("second", "whoami", "--json"))
    assert (shown["standing"], shown["user_key"], shown["user"]) == ("valid", False, first["user"])


def test_lines_can_be_piped(on: On) -> None:
    on("first", "keygen")
    line = on("second", "request").stdout
    granted = on("first", "issue", "-", stdin=line).stdout
    assert on("second", "accept", "-", stdin=granted).code == 0
    assert on("second", "verify", "-", stdin=line + granted).stdout.count("\n") == 2


def test_standard_output_is_the_line_alone(on: On) -> None:
    on("first", "keygen")
    for ran in (on("second", "request"), on("first", "revoke", "--all")):
        assert ran.stdout.startswith("parley-bus-")
        assert ran.stdout.count("\n") == 1
        assert ran.stderr


def test_asking_again_is_asking_with_the_same_key(on: On) -> None:
    one, other = (told(on("second", "request", "--json"))["agent"] for _ in range(2))
    assert one == other


def test_nothing_is_known_where_nothing_was_made(on: On, tmp_path: Path) -> None:
    refused(on("nowhere", "whoami", "--json"), "BUS_NO_IDENTITY", 4)
    on("first", "keygen")
    statement = on("first", "revoke", "--all").stdout.strip()
    refused(on("nowhere", "accept", statement, "--json"), "BUS_NO_IDENTITY", 4)
    refused(on("nowhere", "revoke", "--all", "--json"), "BUS_USER_KEY_MISSING", 4)
    assert not (tmp_path / "nowhere").exists()


def test_only_the_machine_with_the_user_key_lets_in_and_revokes(on: On, tmp_path: Path) -> None:
    on("first", "keygen")
    let_in(on, "second")
    asked = on("third", "request").stdout.strip()
    refused(on("second", "issue", asked, "--json"), "BUS_USER_KEY_MISSING", 4)
    refused(on("nowhere", "issue", asked, "--json"), "BUS_USER_KEY_MISSING", 4)
    assert not (tmp_path / "nowhere").exists()
    refused(on("second", "revoke", "--all", "--json"), "BUS_USER_KEY_MISSING", 4)


def test_a_machine_belongs_to_the_user_who_let_it_in(on: On) -> None:
    on("first", "keygen")
    user = let_in(on, "second")["user"]
    on("elsewhere", "keygen")
    asked = on("second", "request").stdout.strip()
    foreign = on("elsewhere", "issue", asked).stdout.strip()
    refused(on("second", "accept", foreign, "--json"), "BUS_OTHER_USER", 4)
    statement = on("elsewhere", "revoke", "--all").stdout.strip()
    refused(on("second", "accept", statement, "--json"), "BUS_OTHER_USER", 4)
    assert refused(on("second", "keygen", "--json"), "BUS_OTHER_USER", 4) == {"user": user}
    assert told(on("second", "whoami", "--json"))["user"] == user


def test_a_grant_for_another_machine_is_refused(on: On) -> None:
    on("first", "keygen")
    granted = on("first", "issue", on("second", "request").stdout.strip()).stdout.strip()
    refused(on("third", "accept", granted, "--json"), "BUS_NO_IDENTITY", 4)
    mine = told(on("third", "request", "--json"))["agent"]
    assert refused(on("third", "accept", granted, "--json"), "BUS_CHAIN_INVALID", 4)["agent"] == mine


def test_a_revoked_machine_is_refused_wherever_the_statement_went(on: On) -> None:
    on("first", "keygen")
    agent = let_in(on, "second")["agent"]
    let_in(on, "third")
    grant = (Path(os.environ["PARLEY_BUS_HOME"]).parent / "second" / "grant").read_text()
    revoked = told(on("first", "revoke", agent, "--json"))
    assert (revoked["changed"], revoked["revoked"], revoked["generation"]) == (True, 1, 0)
    assert told(on("first", "revoke", agent, "--json"))["changed"] is False
    assert told(on("third", "verify", grant, "--json"))["found"][0]["agent"] == agent, "it has not heard of it yet"
    for machine in ("second", "third"):
        assert told(on(machine, "accept", revoked["statement"], "--json"))["changed"] is True
        assert told(on(machine, "accept", revoked["statement"], "--json"))["changed"] is False
        refused(on(machine, "verify", grant, "--json"), "BUS_REVOKED", 4)
    assert told(on("second", "whoami", "--json"))["standing"] == "revoked"
    refused(on("second", "accept", grant, "--json"), "BUS_REVOKED", 4)
    refused(on("first", "issue", on("second", "request").stdout.strip(), "--json"), "BUS_REVOKED", 4)


def test_an_older_statement_takes_nothing_back(on: On) -> None:
    on("first", "keygen")
    agents = [let_in(on, machine)["agent"] for machine in ("second", "third")]
    older = told(on("first", "revoke", agents[0], "--json"))["statement"]
    newer = told(on("first", "revoke", agents[1], "--json"))["statement"]
    assert told(on("third", "accept", newer, "--json"))["revoked"] == 2
    assert told(on("third", "accept", older, "--json"))["changed"] is False
    assert told(on("third", "whoami", "--json"))["revoked"] == 2


def test_revoking_all_ends_every_certificate_but_that_of_the_machine_itself(on: On) -> None:
    on("first", "keygen")
    let_in(on, "second")
    statement = told(on("first", "revoke", "--all", "--json"))
    assert (statement["generation"], statement["revoked"]) == (1, 0)
    assert told(on("first", "whoami", "--json"))["standing"] == "valid"
    on("second", "accept", statement["statement"])
    assert told(on("second", "whoami", "--json"))["standing"] == "revoked"
    assert let_in(on, "second")["generation"] == 1
    assert told(on("second", "whoami", "--json"))["standing"] == "valid"


def test_a_statement_needs_somebody_whose_it_is(on: On) -> None:
    on("first", "keygen")
    statement = on("first", "revoke", "--all").stdout.strip()
    refused(on("second", "accept", statement, "--json"), "BUS_NO_IDENTITY", 4)
    refused(on("first", "revoke", "--json"), "INVALID_INPUT", 1)
    refused(on("first", "revoke", "abc", "--json"), "INVALID_INPUT", 1)


def test_verify_shows_what_a_line_says(on: On, tmp_path: Path) -> None:
    first = told(on("first", "keygen", "--json"))
    let_in(on, "second", "--no-topics", "--days", "2")
    on("first", "revoke", "--all")
    lines = [on("third", "request").stdout, (tmp_path / "first" / "grant").read_text()]
    lines.append((tmp_path / "first" / "revocations").read_text())
    (tmp_path / "lines").write_text("\n".join(lines))
    found = told(on("first", "verify", tmp_path / "lines", "--json"))["found"]
    assert [each["kind"] for each in found] == ["request", "grant", "statement"]
    assert found[1]["user"] == found[2]["user"] == first["user"]
    assert found[1]["user_known"] is True
    unknown = told(on("nowhere", "verify", tmp_path / "lines", "--json"))["found"]
    assert [each.get("user_known") for each in unknown] == [None, False, False]
    assert "compare the user" in on("nowhere", "verify", tmp_path / "lines").stderr


@pytest.mark.parametrize("command", ["issue", "accept", "verify"])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("parley-bus-request-1:AAAAAAAA", "truncated"),
        ("parley-bus-nonsense-1:AAAA", "foreign"),
        ("parley-bus-grant-7:AAAA", "version"),
        ("parley-bus-" + "A" * limits.BUS_LINE_CHARS_MAX, "too_long"),
    ],
)
def test_a_line_that_is_none_is_refused_by_its_reason(on: On, command: str, line: str, reason: str) -> None:
    on("first", "keygen")
    found = refused(on("first", command, line, "--json"), "BUS_LINE_INVALID", 1)["reason"]
    assert found == ("kind" if command == "accept" and reason == "truncated" else reason)


def test_what_is_on_disk_and_damaged_is_named(on: On, tmp_path: Path) -> None:
    on("first", "keygen")
    on("first", "revoke", "--all")
    let_in(on, "second")
    for name in ("grant", "revocations", "agent.key", "user.key", "issued.json"):
        path = tmp_path / "first" / name
        kept = path.read_bytes()
        for damage in (kept[: len(kept) // 2], b"\xff" + kept[1:]):
            path.write_bytes(damage)
            assert refused(on("first", "whoami", "--json"), "BUS_FILE_DAMAGED", 25)["path"] == str(path)
            assert path.read_bytes() == damage
        path.write_bytes(kept)
        path.chmod(0o644)
        assert refused(on("first", "whoami", "--json"), "BUS_FILE_UNSAFE", 25)["path"] == str(path)
        path.chmod(0o600)
    assert on("first", "whoami").code == 0
    (tmp_path / "first" / "revocations").write_bytes(b"")
    assert refused(on("first", "whoami", "--json"), "BUS_FILE_DAMAGED", 25), "nothing is forgotten in silence"


def test_keys_that_do_not_belong_together_are_noticed(on: On, tmp_path: Path) -> None:
    for machine in ("first", "elsewhere"):
        on(machine, "keygen")
    for name in ("agent.key", "user.key"):
        shutil.copy(tmp_path / "first" / name, tmp_path / name)
        shutil.copy(tmp_path / "elsewhere" / name, tmp_path / "first" / name)
        refused(on("first", "whoami", "--json"), "BUS_FILE_DAMAGED", 25)
        shutil.copy(tmp_path / name, tmp_path / "first" / name)
    assert on("first", "whoami").code == 0


def test_keygen_goes_on_where_it_was_interrupted(on: On, tmp_path: Path) -> None:
    user = told(on("first", "keygen", "--json"))["user"]
    for missing in (("grant",), ("grant", "agent.key")):
        for name in missing:
            (tmp_path / "first" / name).unlink()
        again = told(on("first", "keygen", "--json"))
        assert (again["user"], again["standing"], again["created"]) == (user, "valid", False)


def test_a_machine_that_asked_before_can_become_the_first(on: On) -> None:
    agent = told(on("first", "request", "--json"))["agent"]
    assert told(on("first", "keygen", "--json"))["agent"] == agent


def test_a_full_disk_leaves_no_half_of_a_key(on: On, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "first"))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        (tmp_path / "first").mkdir(mode=0o700)
        refused(on("first", "keygen", "--json"), "SERVICE_UNAVAILABLE", 1)
    assert [each.name for each in (tmp_path / "first").iterdir()] == ["lock"]
    assert told(on("first", "keygen", "--json"))["created"] is True


def test_what_a_command_prints_cannot_steer_a_terminal(on: On) -> None:
    on("first", "keygen")
    asked = on("second", "request").stdout.strip()
    assert refused(on("first", "issue", asked, "--role", "a\x1b[2J", "--json"), "INVALID_INPUT", 1) == {}
    refused(on("first", "issue", asked, "--topic", "", "--json"), "INVALID_INPUT", 1)
    refused(on("first", "issue", asked, "--topic", "a", "--no-topics", "--json"), "INVALID_INPUT", 1)
    refused(on("first", "issue", asked, "--days", "0", "--json"), "INVALID_INPUT", 1)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Time for the commands below, which are called without a command line."""
    monkeypatch.setenv("PARLEY_BUS_HOME", str(tmp_path / "first"))
    return ManualClock()


def test_the_machine_with_the_user_key_knows_whom_it_let_in(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.keygen("office", clock)
    agents: list[str] = []
    for days in (3, 1, 2):
        monkeypatch.setenv("PARLEY_BUS_HOME", str(tmp_path / f"machine-{days}"))
        asked = bus.request(clock)
        agents.append(asked["agent"])
        monkeypatch.setenv("PARLEY_BUS_HOME", str(tmp_path / "first"))
        for role in ("old", "new"):
            bus.issue(asked["request"], role=role, days=days, topics=(), no_topics=False, calls_max=None, clock=clock)
    bus.revoke([agents[2]], everything=False, clock=clock)
    found = bus.whoami(clock)["issued"]
    assert [(each["agent"], each["role"], each["revoked"]) for each in found] == [
        (agents[0], "new", False),
        (agents[2], "new", True),
        (agents[1], "new", False),
    ]
    clock.jump(2 * DAY)
    asked = bus.request(clock)["request"]
    bus.issue(asked, role="own", days=2, topics=(), no_topics=False, calls_max=None, clock=clock)
    assert [each["role"] for each in bus.whoami(clock)["issued"]] == ["own", "new"]


def test_the_machine_with_the_user_key_renews_itself_when_that_is_due(clock: ManualClock) -> None:
    first = bus.keygen("office", clock)
    clock.jump(59 * DAY)
    assert bus.keygen("office", clock)["certificate"] == first["certificate"]
    clock.jump(2 * DAY)
    later = bus.keygen("office", clock)
    assert (later["renewed"], later["agent"]) == (True, first["agent"])
    assert later["certificate"]["expires_at"] > first["certificate"]["expires_at"]
    clock.jump(90 * DAY)
    assert bus.whoami(clock)["standing"] == "expired"
    assert bus.keygen("office", clock)["standing"] == "valid"


def test_a_grant_is_refused_once_it_has_ended(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.keygen("office", clock)
    monkeypatch.setenv("PARLEY_BUS_HOME", str(tmp_path / "second"))
    asked = bus.request(clock)["request"]
    monkeypatch.setenv("PARLEY_BUS_HOME", str(tmp_path / "first"))
    issued = bus.issue(asked, role="agent", days=1, topics=(), no_topics=False, calls_max=None, clock=clock)
    granted = issued["grant"]
    assert bus.verify(granted, clock)["found"]
    clock.jump(DAY)
    with pytest.raises(CertificateExpired):
        bus.verify(granted, clock)
    monkeypatch.setenv("PARLEY_BUS_HOME", str(tmp_path / "second"))
    with pytest.raises(CertificateExpired):
        bus.accept(granted, clock)


def test_commands_at_the_same_time_lose_nothing(tmp_path: Path, clock: ManualClock) -> None:
    """One user key whoever comes first, and every revocation of those that were made at once."""
    count = 6
    names = [bytes([number]).hex() * 32 for number in range(count)]
    users: list[str] = []
    start = Barrier(count)

    def work(name: str) -> None:
        start.wait(30)
        users.append(bus.keygen("office", clock)["user"])
        bus.revoke([name], everything=False, clock=clock)

    threads = [Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(users) == count
    assert len(set(users)) == 1
    revoked = load_standing(BusHome(tmp_path / "first")).revocations.revoked
    assert sorted(each.hex() for each in revoked) == names


def test_statements_of_a_restored_user_key_are_joined(on: On, tmp_path: Path) -> None:
    on("first", "keygen")
    agents = [let_in(on, machine)["agent"] for machine in ("second", "third")]
    shutil.copytree(tmp_path / "first", tmp_path / "backup")
    statements = [told(on("first", "revoke", agents[0], "--json")), told(on("backup", "revoke", agents[1], "--json"))]
    for each in statements:
        on("third", "accept", each["statement"])
    assert told(on("third", "whoami", "--json"))["revoked"] == 2
    assert (tmp_path / "third" / "revocations").read_text().count("\n") == 2
    on("backup", "accept", statements[0]["statement"])
    joined = told(on("backup", "revoke", agents[1], "--json"))
    assert (joined["revoked"], joined["changed"]) == (2, True)
    on("third", "accept", joined["statement"])
    assert (tmp_path / "third" / "revocations").read_text().count("\n") == 1


def test_the_command_loads_no_server_and_no_database(tmp_path: Path) -> None:
    environment = {**os.environ, "PARLEY_BUS_HOME": str(tmp_path / "first"), "PYTHONPROFILEIMPORTTIME": "1"}
    ran = parley_process("bus", "keygen", "--json", env=environment)
    assert json.loads(ran.stdout)["created"] is True
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "parley.bus.chain" in loaded
    assert {"apsw", "starlette", "uvicorn", "httpx"}.isdisjoint(loaded)


def test_a_person_reads_what_happened(on: On, tmp_path: Path) -> None:
    made = on("first", "keygen")
    assert "(its key is here)" in made.stdout
    assert "Keep a copy of user.key" in made.stderr
    assert on("first", "keygen").stderr == ""
    asked = on("second", "request")
    assert "was not let in yet" in on("second", "whoami").stdout
    granted = on("first", "issue", asked.stdout.strip(), "--no-topics", "--calls", "2")
    assert "on no topic, 2 messages to each peer, until" in granted.stderr
    accepted = on("second", "accept", granted.stdout.strip())
    assert accepted.stdout.startswith("This machine may act as agent on no topic")
    assert "(its key is elsewhere)" in on("second", "whoami").stdout
    agent = told(on("second", "whoami", "--json"))["agent"]
    assert "Revoked: 1 key." in on("first", "revoke", agent).stderr
    statement = on("first", "revoke", agent)
    assert "Revoked before: 1 key." in statement.stderr
    assert on("second", "accept", statement.stdout.strip()).stdout == "Stored: 1 key.\n"
    assert on("second", "accept", statement.stdout.strip()).stdout == "This was known already.\n"
    assert "but    it was revoked" in on("second", "whoami").stdout
    other = on("first", "revoke", "ab" * 32, "--all")
    assert "Revoked: 2 keys, and certificates before generation 1." in other.stderr
    (tmp_path / "statement").write_text(other.stdout)
    assert "revokes 2 keys" in on("second", "verify", tmp_path / "statement").stdout


def test_a_file_that_is_not_there_is_named(on: On, tmp_path: Path) -> None:
    assert "nothing-here" in on("first", "verify", tmp_path / "nothing-here").stderr
    assert refused(on("first", "verify", tmp_path, "--json"), "SERVICE_UNAVAILABLE", 1)["reason"] == "io_error"


def test_what_is_issued_to_end_is_listed_as_such(on: On) -> None:
    on("first", "keygen")
    let_in(on, "second")
    let_in(on, "third", "--no-renewal")
    found = told(on("first", "whoami", "--json"))["issued"]
    assert sorted(each["renewal"] for each in found) == [False, True]
    assert on("first", "whoami").stdout.count(", not renewed)") == 1
