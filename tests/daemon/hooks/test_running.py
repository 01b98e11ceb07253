"""Hooks in their jail: they read the event, say what they want, see nothing else, and end in time."""

from contextlib import closing
from pathlib import Path

import apsw
import msgspec

from parley.daemon.inbox.events import events_after
from parley.daemon.outbox.rows import list_rows
from parley.sandbox import missing
from parley.wire.daemon_home import DaemonHome
from tests.daemon.http.test_stream import arrive
from tests.daemon.served_daemon import BOB, MakeServed, ServedDaemon

SETTINGS = {"allow_reply": "true", "capability_token_scope": '["topic:log:post"]'}
ANSWERING = """
import json, os, sys
event = json.load(sys.stdin)
token = os.environ["PARLEY_CAPABILITY_TOKEN"]
calls = [
    {"token": token, "op": "topic", "topic": "log", "message": "logged"},
    {"token": token, "op": "topic", "topic": "secrets", "message": "never"},
    {"token": "0" * 64, "op": "reply", "message": "never"},
]
print(json.dumps({"reply": "you said " + event["body"], "calls": calls}))
"""
PEEKING = """
import json, os, socket, sys
seen = os.path.exists(sys.argv[0].replace("/app/on-dm.py", "HOME/memberships.json"))
try:
    socket.socket(socket.AF_UNIX).connect("HOME/daemon.sock")
    reached = True
except OSError:
    reached = False
text = f"{seen} {reached} {sorted(os.environ)}"
token = os.environ["PARLEY_CAPABILITY_TOKEN"]
print(json.dumps({"calls": [{"token": token, "op": "topic", "topic": "log", "message": text}]}))
"""


def write_hook(tmp_path: Path, name: str, script: str, **settings: str) -> None:
    home = DaemonHome(tmp_path / "home")
    home.hooks.mkdir(parents=True)
    home.root.chmod(0o700)
    (home.hooks / name).write_text(script.replace("HOME", str(home.root)))
    lines = "\n".join(f"{key} = {value}" for key, value in settings.items())
    (home.hooks / "hooks.toml").write_text(f"[{name.rpartition('.')[0]}]\n{lines}\n")


async def after_a_message(make_served: MakeServed) -> tuple[ServedDaemon, dict[str, object]]:
    """A daemon that got a message, and what it wrote down of its hook."""
    served = await make_served()
    await hand_over(served, 1)
    await served.until(lambda: bool(executed(served)))
    return served, executed(served)[0]


async def hand_over(served: ServedDaemon, number: int) -> None:
    """A message arrives, and the hooks hear of it."""
    received = await arrive(served, number)
    assert received.event is not None
    served.daemon.hooks.on_events([received.event])


def executed(served: ServedDaemon) -> list[dict[str, object]]:
    """What the daemon wrote down of its hooks."""
    found = served.daemon.store.read_inbox(lambda db: events_after(db, 0, 100))
    return [event.data for event in found if event.kind == "hook_executed"]


def sent(served: ServedDaemon) -> list[tuple[str, str]]:
    rows = served.daemon.store.read_outbox(lambda db: list_rows(db, status=None, mesh_id=None, limit=10))
    return sorted((row.to_spec, row.payload.decode()) for row in rows)


def test_this_machine_can_build_a_jail() -> None:
    assert missing() == ()


async def test_a_hook_answers_and_posts_what_it_may_and_no_more(tmp_path: Path, make_served: MakeServed) -> None:
    write_hook(tmp_path, "on-dm.py", ANSWERING, **SETTINGS)
    served, told = await after_a_message(make_served)
    assert (told["exit"], told["replied"], told["refused_calls"]) == (0, True, 2)
    assert told["capability_calls"] == 2
    assert ("#log", "logged") in sent(served)
    assert not any("never" in text for _, text in sent(served))


async def test_a_hook_sees_no_file_no_socket_and_no_variable_of_its_user(
    tmp_path: Path, make_served: MakeServed
) -> None:
    write_hook(tmp_path, "on-dm.py", PEEKING, capability_token_scope='["topic:log:post"]')
    served, told = await after_a_message(make_served)
    assert (told["exit"], told["capability_calls"]) == (0, 1)
    ((_, text),) = sent(served)
    assert text.startswith("False False [")
    for name in ("PARLEY_DAEMON_HOME", "USER", "PWD"):
        assert f"'{name}'" not in text


async def test_a_hook_that_takes_too_long_is_ended_and_asks_for_nothing(
    tmp_path: Path, make_served: MakeServed
) -> None:
    write_hook(tmp_path, "on-dm.sh", 'echo "{\\"reply\\": \\"x\\"}"\nwhile :; do :; done\n', timeout_s="1")
    served, told = await after_a_message(make_served)
    assert (told["exit"], told["problem"]) == (None, "timeout")
    assert sent(served) == []


async def test_a_hook_that_fails_asks_for_nothing(tmp_path: Path, make_served: MakeServed) -> None:
    write_hook(tmp_path, "on-dm.sh", 'echo "{\\"reply\\": \\"x\\"}"\nexit 3\n', allow_reply="true")
    served, told = await after_a_message(make_served)
    assert (told["exit"], told["replied"]) == (3, False)
    assert sent(served) == []
    assert msgspec.json.encode(told)


async def test_a_hook_is_not_told_what_its_user_wants_left_out(tmp_path: Path, make_served: MakeServed) -> None:
    write_hook(tmp_path, "on-dm.py", ANSWERING, **SETTINGS, redact_payload='["$.body"]')
    served, told = await after_a_message(make_served)
    assert told["replied"] is True
    assert any(text == "you said [redacted]" for _, text in sent(served))


async def test_what_arrived_before_a_crash_is_handed_to_the_hooks_after_it(
    tmp_path: Path, make_served: MakeServed
) -> None:
    write_hook(tmp_path, "on-dm.sh", "exit 0\n")
    crashed = await make_served()
    await arrive(crashed, 1)  # on disk, and the hooks have not heard of it
    await crashed.close()
    served = await make_served(empty=True)
    await served.until(lambda: bool(executed(served)))
    await hand_over(served, 2)
    await served.until(lambda: len(executed(served)) == 2)
    assert len({told["event_id"] for told in executed(served)}) == 2


async def test_a_hook_that_ran_is_not_run_again_whatever_the_cursor_says(
    tmp_path: Path, make_served: MakeServed
) -> None:
    write_hook(tmp_path, "on-dm.sh", "exit 0\n")
    served, told = await after_a_message(make_served)
    await served.close()
    with closing(apsw.Connection(str(served.home.inbox))) as inbox:
        assert inbox.execute("UPDATE hook_cursor SET event_id = 0 RETURNING 1").fetchall() == [(1,)]
    served = await make_served(empty=True)
    await hand_over(served, 2)
    await served.until(lambda: len(executed(served)) == 2)
    assert [each["event_id"] for each in executed(served)].count(told["event_id"]) == 1


JUDGING = """
import json, sys
asked = json.load(sys.stdin)
if "secret" in asked["body"]:
    print(json.dumps({"refuse": "it has a secret in it"}))
elif "4111-1111-1111-1111" in asked["body"]:
    print(json.dumps({"message": "card ****", "meta": {"seen": asked["kind"]}}))
elif "odd" in asked["body"]:
    sys.exit(3)
elif "words" in asked["body"]:
    print("fine by me")
"""


async def test_the_hook_before_a_message_goes_may_refuse_it(tmp_path: Path, make_served: MakeServed) -> None:
    write_hook(tmp_path, "pre-send.py", JUDGING)
    served = await make_served()
    assert (await served.send(message="hello")).status_code == 202
    for message, reason in (("a secret", "refused"), ("odd", "failed"), ("words", "failed")):
        refused = await served.send(message=message)
        assert (refused.status_code, refused.json()["code"], refused.json()["reason"]) == (403, "HOOK_REFUSED", reason)
    assert sent(served) == [(BOB, "hello")]
    shown = (await served.unix.get("/v1/metrics")).text
    for outcome, times in (("ok", 1), ("refused", 1), ("failed", 2)):
        assert f'parley_daemon_hook_runs_total{{hook="pre-send",outcome="{outcome}"}} {times}.0' in shown
    assert [(told["refused"], told.get("changed")) for told in executed(served)][:2] == [(False, False), (True, None)]


async def test_the_hook_before_a_message_goes_may_change_it_and_its_id_stays_bound_to_what_was_asked(
    tmp_path: Path, make_served: MakeServed
) -> None:
    write_hook(tmp_path, "pre-send.py", JUDGING)
    served = await make_served()
    first = await served.send(message="card 4111-1111-1111-1111", client_message_id="m-1")
    again = await served.send(message="card 4111-1111-1111-1111", client_message_id="m-1")
    other = await served.send(message="card ****", client_message_id="m-1")
    assert (first.status_code, again.status_code, other.status_code) == (202, 202, 409)
    assert sent(served) == [(BOB, "card ****")]
    assert len(executed(served)) == 1
    await served.close()
    assert b"4111-1111" not in b"".join(path.read_bytes() for path in served.home.root.glob("*.db*"))


async def test_a_hook_that_takes_too_long_lets_nothing_go(tmp_path: Path, make_served: MakeServed) -> None:
    write_hook(tmp_path, "pre-send.sh", "while :; do :; done\n", timeout_s="1")
    served = await make_served()
    assert (await served.send()).json()["reason"] == "timeout"
    large = await served.send(message="\x01" * 60_000)
    assert large.json()["reason"] == "too_large"
    assert sent(served) == []
