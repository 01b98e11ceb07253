"""Which hooks an event runs, and what they may ask for in return."""

from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from parley.core.errors import ConfigInvalid
from parley.daemon.hooks.config import load_hooks
from parley.daemon.hooks.redaction import REDACTED, parse_path, redact
from parley.daemon.hooks.rules import (
    BY_HOOK,
    INPUT_BYTES_MAX,
    Capability,
    HookCall,
    HookOutput,
    Verdict,
    Wanted,
    hook_input,
    hooks_for,
    parse_output,
    parse_verdict,
    wanted,
)
from parley.daemon.inbox.events import DaemonEvent
from parley.daemon.inbox.reading import Filter, InboxMessage, page
from parley.daemon.inbox.receive import receive
from parley.wire.broker import Push
from tests.daemon.world import ALICE, NOW, commit, opens, push

SCOPES = frozenset({"reply:event", "dm:send:sender", "topic:log:post"})
CAPABILITY = Capability("secret", SCOPES, ends_at=10.0)


def arrived(inbox: apsw.Connection, *, mentioned: bool = False, **changes: Any) -> InboxMessage:
    delivery = Push(1, 1, mentioned, push(1, **changes).message)
    commit(
        inbox,
        lambda db: receive(db, delivery, opens, mesh_id="mesh_1", recipient_id="mem_b", row_id="in_1", now_ms=NOW),
    )
    return page(inbox, Filter(), 1)[0]


def event(kind: Any, **data: Any) -> DaemonEvent:
    return DaemonEvent(7, NOW, kind, "mesh_1", 1, data)


def test_a_message_runs_the_hooks_of_its_kind(inbox: apsw.Connection) -> None:
    direct = arrived(inbox)
    assert hooks_for(event("message"), direct) == ["on-message", "on-dm"]
    assert hooks_for(event("message_opened"), direct) == ["on-message", "on-dm"]
    assert hooks_for(event("decrypt_failed"), direct) == []
    assert hooks_for(event("hook_executed"), direct) == []
    assert hooks_for(event("message"), None) == []


def test_a_mention_in_a_topic_runs_three(inbox: apsw.Connection) -> None:
    message = arrived(inbox, mentioned=True, kind="topic", ref="alerts")
    assert hooks_for(event("message"), message) == ["on-message", "on-mention", "on-topic-alerts"]


def test_what_a_hook_sent_runs_none_so_that_two_never_answer_each_other_for_ever(inbox: apsw.Connection) -> None:
    message = msgspec.structs.replace(arrived(inbox), meta={BY_HOOK: "on-dm"})
    assert hooks_for(event("message"), message) == []


@pytest.mark.parametrize(
    ("status", "hooks"), [("open", ["on-reconnect"]), ("reconnecting", ["on-disconnect"]), ("ended", [])]
)
def test_connections_run_hooks_too(status: str, hooks: list[str]) -> None:
    assert hooks_for(event("broker_status", status=status), None) == hooks


def test_a_call_needs_its_token_its_scope_and_its_time(inbox: apsw.Connection) -> None:
    message = arrived(inbox)
    for call, now, allowed in (
        (HookCall("secret", "reply", "hi"), 9.9, True),
        (HookCall("secret", "reply", "hi"), 10.0, False),
        (HookCall("other", "reply", "hi"), 0.0, False),
        (HookCall("secret", "topic", "hi", "log"), 0.0, True),
        (HookCall("secret", "topic", "hi", "alerts"), 0.0, False),
        (HookCall("secret", "dm", "hi"), 0.0, True),
    ):
        assert CAPABILITY.allows(call, now) is allowed
        assert (wanted(HookOutput(calls=[call]), CAPABILITY, message, now) != [None]) is allowed


def test_a_reply_goes_to_the_sender_or_to_the_topic_and_nowhere_else(inbox: apsw.Connection) -> None:
    direct = arrived(inbox)
    topical = msgspec.structs.replace(direct, destination_kind="topic", destination_ref="alerts")
    output = HookOutput(reply="hi")
    assert wanted(output, CAPABILITY, direct, 0) == [Wanted(ALICE, "hi", "bm_m-1")]
    assert wanted(output, CAPABILITY, topical, 0) == [Wanted("#alerts", "hi", "bm_m-1")]
    assert wanted(output, CAPABILITY._replace(scopes=frozenset()), direct, 0) == [None]
    assert wanted(output, CAPABILITY, None, 0) == [None]
    posts = HookOutput(calls=[HookCall("secret", "topic", "done", "log"), HookCall("secret", "dm", "hi")])
    assert wanted(posts, CAPABILITY, topical, 0) == [Wanted("#log", "done", None), Wanted(ALICE, "hi", None)]


@pytest.mark.parametrize("printed", [b"{", b"[]", b'{"reply": 1}', b'{"calls": [{"op": "read"}]}', b"\xff"])
def test_what_is_not_of_the_form_asks_for_nothing(printed: bytes) -> None:
    assert parse_output(printed) is None
    assert parse_output(b"  \n") == HookOutput()
    many = msgspec.json.encode({"calls": [{"token": "t", "op": "reply", "message": "x"}] * 17})
    assert parse_output(many) is None


def test_a_large_event_is_cut_short_and_says_so() -> None:
    small = {"body": "x"}
    assert msgspec.json.decode(hook_input(small)) == small
    cut = hook_input({"body": "é" * INPUT_BYTES_MAX, "meta": {"a": "x" * INPUT_BYTES_MAX}})
    assert len(cut) <= INPUT_BYTES_MAX
    assert msgspec.json.decode(cut)["_truncated"] is True


def test_only_hooks_with_an_entry_and_a_script_are_loaded(tmp_path: Path) -> None:
    assert load_hooks(tmp_path) == {}
    (tmp_path / "on-dm.py").write_text("print(1)")
    (tmp_path / "on-mention.sh").write_text("echo 1")
    (tmp_path / "on-message.py").write_text("never named")
    (tmp_path / "hooks.toml").write_text('[on-dm]\nallow_reply = true\n["on-mention"]\nenabled = false\n')
    hooks = load_hooks(tmp_path)
    assert list(hooks) == ["on-dm"]
    assert hooks["on-dm"].settings.scopes == {"reply:event"}


@pytest.mark.parametrize(
    "text",
    [
        "[on-dm]\n",
        "[before-lunch]\n",
        "[on-message]\nspeed = 3\n",
        "[on-message]\ntimeout_s = 0\n",
        '[on-message]\ncapability_token_scope = ["dm:send:*"]\n',
        "[on-message\n",
        '[on-message]\nredact_payload = ["body"]\n',
        "[pre-send]\nallow_reply = true\n",
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str) -> None:
    for name in ("on-message", "pre-send"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "hooks.toml").write_text(text)
    with pytest.raises(ConfigInvalid):
        load_hooks(tmp_path)


def test_a_mistake_is_told_by_its_setting(tmp_path: Path) -> None:
    (tmp_path / "on-message.py").write_text("")
    (tmp_path / "hooks.toml").write_text('[on-message]\ntimeout_s = "long"\n')
    with pytest.raises(ConfigInvalid, match="on-message: timeout_s: must be a number, not a string"):
        load_hooks(tmp_path)


def test_a_list_of_hosts_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "on-message.py").write_text("")
    (tmp_path / "hooks.toml").write_text('[on-message]\nnetwork_policy = "allowlist"\n')
    with pytest.raises(ConfigInvalid, match="a list of hosts cannot be enforced"):
        load_hooks(tmp_path)


DOCUMENT = {"body": "b", "meta": {"token": "t", "list": [{"token": "u"}, 2], "a b": {"token": {"token": 1}}}}


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("$.body", {**DOCUMENT, "body": REDACTED}),
        ("$.meta", {**DOCUMENT, "meta": REDACTED}),
        ("$.meta.list[1]", {**DOCUMENT, "meta": {**DOCUMENT["meta"], "list": [{"token": "u"}, REDACTED]}}),
        ("$.meta.list[*].token", {**DOCUMENT, "meta": {**DOCUMENT["meta"], "list": [{"token": REDACTED}, 2]}}),
        ("$['meta'][\"a b\"]", {**DOCUMENT, "meta": {**DOCUMENT["meta"], "a b": REDACTED}}),
        ("$.*", {"body": REDACTED, "meta": REDACTED}),
        (
            "$..token",
            {"body": "b", "meta": {"token": REDACTED, "list": [{"token": REDACTED}, 2], "a b": {"token": REDACTED}}},
        ),
        ("$..token.token", {**DOCUMENT, "meta": {**DOCUMENT["meta"], "a b": {"token": {"token": REDACTED}}}}),
        ("$.nothing.here", DOCUMENT),
        ("$.body.inside", DOCUMENT),
    ],
)
def test_a_path_names_what_a_hook_is_not_told(path: str, changed: dict[str, Any]) -> None:
    before = msgspec.json.encode(DOCUMENT)
    assert redact(DOCUMENT, parse_path(path)) == changed
    assert msgspec.json.decode(hook_input(DOCUMENT, [parse_path(path)])) == changed
    assert msgspec.json.encode(DOCUMENT) == before


@pytest.mark.parametrize(
    "text", ["", "$", "body", "$body", "$.", "$.a[", "$.a[x]", "$.a[?(@.b)]", "$..", "x$.a", "$.a b"]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        parse_path(text)


def test_a_verdict_is_read_and_silence_lets_a_message_go() -> None:
    assert parse_verdict(b" \n") == Verdict()
    assert parse_verdict(b'{"refuse": "no"}') == Verdict(refuse="no")
    assert parse_verdict(b'{"message": "x", "meta": {"a": 1}}') == Verdict(message="x", meta={"a": 1})
    slips = (b'{"refuze": "no"}', b'{"event": "pre_send", "body": "an echo of what was asked"}')
    for printed in (b"{", b"[]", b'{"message": 1}', b"\xff", *slips):
        assert parse_verdict(printed) is None
