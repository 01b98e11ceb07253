"""Hooks in their jail: they read the event, say what they want, see nothing else, and end in time."""

from pathlib import Path

import msgspec

from parley.daemon.inbox.events import events_after
from parley.daemon.outbox.rows import list_rows
from parley.sandbox import missing
from parley.wire.daemon_home import DaemonHome
from tests.daemon.desk import Desk, MakeDesk
from tests.daemon.http.test_stream import arrive

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


async def after_a_message(make_desk: MakeDesk) -> tuple[Desk, dict[str, object]]:
    """A daemon that got a message, and what it wrote down of its hook."""
    desk = await make_desk()
    received = await arrive(desk, 1)
    assert received.event is not None
    desk.daemon.hooks.on_events([received.event])
    executed: list[dict[str, object]] = []

    def is_written() -> bool:
        found = desk.daemon.store.read_inbox(lambda db: events_after(db, 0, 100))
        executed[:] = [event.data for event in found if event.kind == "hook_executed"]
        return bool(executed)

    await desk.until(is_written)
    return desk, executed[0]


def sent(desk: Desk) -> list[tuple[str, str]]:
    rows = desk.daemon.store.read_outbox(lambda db: list_rows(db, status=None, mesh_id=None, limit=10))
    return sorted((row.to_spec, row.payload.decode()) for row in rows)


def test_this_machine_can_build_a_jail() -> None:
    assert missing() == ()


async def test_a_hook_answers_and_posts_what_it_may_and_no_more(tmp_path: Path, make_desk: MakeDesk) -> None:
    write_hook(tmp_path, "on-dm.py", ANSWERING, **SETTINGS)
    desk, told = await after_a_message(make_desk)
    assert (told["exit"], told["replied"], told["refused_calls"]) == (0, True, 2)
    assert told["capability_calls"] == 2
    assert ("#log", "logged") in sent(desk)
    assert not any("never" in text for _, text in sent(desk))


async def test_a_hook_sees_no_file_no_socket_and_no_variable_of_its_user(tmp_path: Path, make_desk: MakeDesk) -> None:
    write_hook(tmp_path, "on-dm.py", PEEKING, capability_token_scope='["topic:log:post"]')
    desk, told = await after_a_message(make_desk)
    assert (told["exit"], told["capability_calls"]) == (0, 1)
    ((_, text),) = sent(desk)
    assert text.startswith("False False [")
    for name in ("PARLEY_DAEMON_HOME", "USER", "PWD"):
        assert f"'{name}'" not in text


async def test_a_hook_that_takes_too_long_is_ended_and_asks_for_nothing(tmp_path: Path, make_desk: MakeDesk) -> None:
    write_hook(tmp_path, "on-dm.sh", 'echo "{\\"reply\\": \\"x\\"}"\nwhile :; do :; done\n', timeout_s="1")
    desk, told = await after_a_message(make_desk)
    assert (told["exit"], told["problem"]) == (None, "timeout")
    assert sent(desk) == []


async def test_a_hook_that_fails_asks_for_nothing(tmp_path: Path, make_desk: MakeDesk) -> None:
    write_hook(tmp_path, "on-dm.sh", 'echo "{\\"reply\\": \\"x\\"}"\nexit 3\n', allow_reply="true")
    desk, told = await after_a_message(make_desk)
    assert (told["exit"], told["replied"]) == (3, False)
    assert sent(desk) == []
    assert msgspec.json.encode(told)
