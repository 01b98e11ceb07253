"""Channels, topics, messages, attachments and search, against a real hub and the file it writes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.conftest import Parley, Serving


@pytest.fixture
def place(parley: Parley, hub: Serving) -> "Place":
    return Place(parley, hub)


class Place:
    """A channel with a topic of a test's own in the shared hub, and short ways to call."""

    def __init__(self, parley: Parley, hub: Serving) -> None:
        self._parley = parley
        self._hub = hub
        self.channel = hub.new_name()
        self.channel_id: str = self.ok("channel", "create", self.channel)["channel"]["id"]
        self.topic: str = self.ok("topic", "create", "Talk", "--channel", self.channel)["topic"]["id"]

    def call(self, *args: str, stdin: str = "") -> Any:
        return self._parley(*args, "--workspace", self._hub.root, stdin=stdin)

    def ok(self, *args: str, stdin: str = "") -> Any:
        result = self.call("--json", *args, stdin=stdin)
        assert result.code == 0, result.stdout
        assert result.json["status"] == "ok"
        assert result.stderr == ""
        return result.json

    def refused(self, *args: str) -> tuple[int, str]:
        result = self.call(*args, "--json")
        assert result.stdout.count("\n") == 1
        assert result.json["status"] == "error"
        assert result.json["hint"]
        return result.code, result.json["code"]

    def send(self, text: str) -> str:
        return self.ok("msg", "send", text, "--topic-id", self.topic, "--sender", "ann")["message_id"]


def test_a_channel_is_created_by_position_or_option_and_listed(place: Place, hub: Serving) -> None:
    other = hub.new_name()
    created = place.ok("channel", "create", "--name", other, "--description", "what for")
    assert created.keys() == {"status", "channel", "event_id"}
    assert created["channel"]["description"] == "what for"
    listed = place.ok("channel", "list")
    assert listed["count"] == len(listed["channels"])
    assert {other, place.channel} <= {channel["name"] for channel in listed["channels"]}
    assert f"{created['channel']['id']}\t{other}\twhat for\t" in place.call("channel", "list").stdout


def test_a_channel_needs_one_name(place: Place) -> None:
    assert place.refused("channel", "create") == (1, "INVALID_INPUT")
    assert place.refused("channel", "create", "a", "--name", "b") == (1, "INVALID_INPUT")
    assert place.refused("channel", "create", place.channel) == (1, "INVALID_INPUT")


def test_topics_are_listed_by_name_or_id_of_their_channel_and_paged(place: Place) -> None:
    place.ok("topic", "create", "--title", "Second", "--channel-id", place.channel_id)
    by_name = place.ok("topic", "list", "--channel", place.channel)
    assert by_name.keys() == {"status", "topics", "count", "hasMore"}
    assert by_name == place.ok("topic", "list", "--channel-id", place.channel_id)
    assert by_name == place.ok("topic", "list", "--channel", place.channel_id)
    assert {topic["title"] for topic in by_name["topics"]} == {"Talk", "Second"}
    first = place.ok("topic", "list", "--channel", place.channel, "--limit", "1")
    assert (first["count"], first["hasMore"]) == (1, True)
    rest = place.ok("topic", "list", "--channel", place.channel, "--limit", "1", "--offset", "1")
    assert rest["topics"] == by_name["topics"][1:]


def test_a_topic_list_needs_one_channel_that_exists(place: Place) -> None:
    assert place.refused("topic", "list") == (1, "INVALID_INPUT")
    assert place.refused("topic", "list", "--channel", "a", "--channel-id", "b") == (1, "INVALID_INPUT")
    assert place.refused("topic", "list", "--channel", "nowhere") == (1, "NOT_FOUND")


def test_a_topic_is_renamed(place: Place) -> None:
    renamed = place.ok("topic", "rename", place.topic, "--title", "Other words")
    assert renamed["topic"]["title"] == "Other words"
    assert isinstance(renamed["event_id"], int)
    assert place.call("topic", "rename", place.topic, "--title", "Again").stdout == f"{place.topic}\tAgain\n"


def test_a_message_is_sent_by_position_by_option_and_from_standard_input(place: Place) -> None:
    here = ("--topic-id", place.topic, "--sender", "ann")
    sent = place.ok("msg", "send", "one", *here)
    assert sent.keys() == {"status", "message_id", "event_id"}
    place.ok("msg", "send", *here, "--content", "two")
    place.ok("msg", "send", *here, "--stdin", stdin="three\nlines\n")
    tail = place.ok("msg", "tail", "--topic-id", place.topic)
    assert [message["content_raw"] for message in tail["messages"]] == ["three\nlines", "two", "one"]
    assert tail["count"] == 3
    assert place.call("msg", "send", "four", *here).stdout.startswith("msg_")


def test_a_message_needs_its_text_once(place: Place) -> None:
    here = ("--topic-id", place.topic, "--sender", "ann")
    for words in ([], ["one", "--content", "two"], ["one", "--stdin"]):
        assert place.refused("msg", "send", *words, *here) == (1, "INVALID_INPUT")


def test_a_reply_and_a_retry_with_the_same_key(place: Place) -> None:
    first = place.send("question")
    answer = ("msg", "send", "answer", "--topic-id", place.topic, "--sender", "bob")
    keyed = (*answer, "--reply-to", first, "--client-message-id", f"key-{first}")
    sent, again = place.ok(*keyed), place.ok(*keyed)
    assert again == {**sent, "duplicate": True}
    newest = place.ok("msg", "tail", "--topic-id", place.topic, "--limit", "1")["messages"][0]
    assert newest["reply_to"] == first
    assert place.refused("msg", "send", "else", *keyed[3:]) == (1, "IDEMPOTENCY_KEY_REUSED")


def test_an_edit_with_a_stale_version_exits_with_2_and_names_the_current_one(place: Place) -> None:
    message = place.send("one")
    edited = place.ok("msg", "edit", message, "--content", "two", "--expected-version", "1")
    assert (edited["message"]["content_raw"], edited["message"]["version"]) == ("two", 2)
    result = place.call("msg", "edit", message, "--content", "three", "--expected-version", "1", "--json")
    assert result.code == 2
    assert result.json["code"] == "VERSION_CONFLICT"
    assert result.json["details"]["current_version"] == 2
    spoken = place.call("msg", "edit", message, "--content", "three", "--expected-version", "1")
    assert (spoken.code, spoken.stdout) == (2, "")
    assert "current 2" in spoken.stderr


def test_delete_is_repeatable_and_guarded_by_version(place: Place) -> None:
    message = place.send("one")
    assert place.refused("msg", "delete", message, "--actor", "ann", "--expected-version", "9") == (
        2,
        "VERSION_CONFLICT",
    )
    deleted = place.ok("msg", "delete", message, "--actor", "ann")
    assert deleted.keys() == {"status", "deleted", "event_id"}
    assert isinstance(deleted["event_id"], int)
    assert place.ok("msg", "delete", message, "--actor", "ann")["event_id"] is None
    assert place.refused("msg", "edit", message, "--content", "back") == (1, "MESSAGE_DELETED")


def test_retopic_moves_one_later_or_with_force_all(place: Place) -> None:
    target = place.ok("topic", "create", "Elsewhere", "--channel", place.channel)["topic"]["id"]
    messages = [place.send(str(number)) for number in range(5)]
    to = ("--to-topic-id", target)
    assert place.ok("msg", "retopic", messages[0], *to, "--mode", "one")["affected_count"] == 1
    later = place.ok("msg", "retopic", messages[3], *to, "--mode", "later")
    assert later.keys() == {"status", "affected_count", "event_ids"}
    assert (later["affected_count"], len(later["event_ids"])) == (2, 2)
    assert place.refused("msg", "retopic", messages[1], *to, "--mode", "all") == (1, "INVALID_INPUT")
    assert place.ok("msg", "retopic", messages[1], *to, "--mode", "all", "--force")["affected_count"] == 2


def test_retopic_across_channels_is_refused(place: Place, hub: Serving) -> None:
    message = place.send("one")
    elsewhere = hub.new_name()
    place.ok("channel", "create", elsewhere)
    target = place.ok("topic", "create", "There", "--channel", elsewhere)["topic"]["id"]
    assert place.refused("msg", "retopic", message, "--to-topic-id", target) == (1, "CROSS_CHANNEL_MOVE")


def test_pages_go_both_ways_and_miss_nothing(place: Place) -> None:
    messages = [place.send(str(number)) for number in range(5)]

    def page(*args: str) -> tuple[list[str], bool]:
        found = place.ok("msg", "page", "--topic-id", place.topic, "--limit", "2", *args)
        assert found["count"] == len(found["messages"])
        return [message["id"] for message in found["messages"]], found["hasMore"]

    assert page() == ([messages[4], messages[3]], True)
    assert page("--before-id", messages[3]) == ([messages[2], messages[1]], True)
    assert page("--after-id", messages[0]) == ([messages[2], messages[1]], True)
    assert page("--after-id", messages[3]) == ([messages[4]], False)


@pytest.mark.parametrize("words", [["msg", "tail"], ["msg", "page"], ["attachment", "list"]], ids=" ".join)
def test_a_topic_that_does_not_exist_is_an_error_not_an_empty_list(words: list[str], place: Place) -> None:
    assert place.refused(*words, "--topic-id", "nowhere") == (1, "NOT_FOUND")


def test_attachments_are_stored_once(place: Place) -> None:
    add = ("attachment", "add", "--topic-id", place.topic, "--kind", "decision", "--value-json", '{"use": "sqlite"}')
    added, again = place.ok(*add), place.ok(*add)
    assert added.keys() == {"status", "attachment", "attachment_id", "event_id", "deduplicated"}
    assert (added["deduplicated"], again["deduplicated"], again["event_id"]) == (False, True, None)
    assert again["attachment"] == added["attachment"]
    place.ok(*add[:-1], '{"use": "flock"}', "--key", "lock", "--dedupe-key", "k")
    listed = place.ok("attachment", "list", "--topic-id", place.topic, "--kind", "decision")
    assert listed["count"] == 2
    assert place.ok("attachment", "list", "--topic-id", place.topic, "--kind", "url")["attachments"] == []


@pytest.mark.parametrize("value", ["{", "[1]", "7"])
def test_an_attachment_that_is_no_object_is_refused(value: str, place: Place) -> None:
    add = ("attachment", "add", "--topic-id", place.topic, "--kind", "x", "--value-json", value)
    assert place.refused(*add) == (1, "INVALID_INPUT")


def test_search_by_position_or_option_in_a_channel_or_topic(place: Place) -> None:
    word = place.channel.replace("-", "")
    message = place.send(f"the {word} is here")
    for scope in ([], ["--channel", place.channel], ["--channel-id", place.channel_id], ["--topic-id", place.topic]):
        found = place.ok("search", word, *scope)
        assert found.keys() == {"status", "messages", "count", "hasMore", "fts_used"}
        assert [hit["id"] for hit in found["messages"]] == [message]
        assert found["fts_used"] is True
    assert place.ok("search", "--query", word)["count"] == 1
    assert place.ok("search", "nothing-like-it")["count"] == 0
    assert place.refused("search") == (1, "INVALID_INPUT")
    assert place.refused("search", word, "--channel", "nowhere") == (1, "NOT_FOUND")


def test_piped_output_has_no_colour_and_one_line_per_message(place: Place) -> None:
    message = place.send("two\nlines\tand a tab")
    result = place.call("msg", "tail", "--topic-id", place.topic)
    assert "\x1b" not in result.stdout
    assert result.stdout.count("\n") == 1
    assert result.stdout.startswith(message)
    assert result.stdout.endswith("\tann\ttwo\\nlines and a tab\n")


def test_a_message_cannot_steer_the_terminal_of_its_reader(place: Place) -> None:
    place.send("\x1b]0;owned\x07\x1b[31mred")
    shown = place.call("msg", "tail", "--topic-id", place.topic).stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\x1b[31mred" in shown


def test_at_a_terminal_there_is_a_table_with_colour_unless_it_is_switched_off(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.send("hello")
    tail = ("msg", "tail", "--topic-id", place.topic)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda stream: True)
    coloured = place.call(*tail).stdout
    assert "sender" in coloured
    assert "\x1b[36m" in coloured
    assert "\x1b[36m" not in place.call(*tail, "--no-color").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in place.call(*tail).stdout


def test_what_a_person_is_told_after_each_change(place: Place) -> None:
    target = place.call("topic", "create", "Elsewhere", "--channel", place.channel).stdout.strip()
    assert f"{target}\tElsewhere\t" in place.call("topic", "list", "--channel", place.channel).stdout
    message = place.send("one")
    assert place.call("msg", "edit", message, "--content", "two").stdout == f"{message}\tversion 2\n"
    assert place.call("msg", "retopic", message, "--to-topic-id", target).stdout == "1 moved\n"
    assert message in place.call("msg", "page", "--topic-id", target).stdout
    assert place.call("msg", "delete", message, "--actor", "ann").stdout == f"{message}\tdeleted\n"
    assert place.call("msg", "delete", message, "--actor", "ann").stdout == f"{message}\twas deleted before\n"
    attachment = place.call("attachment", "add", "--topic-id", target, "--kind", "k", "--value-json", "{}").stdout
    assert place.call("attachment", "list", "--topic-id", target).stdout == f"{attachment.strip()}\tk\t\t{{}}\n"


def test_an_empty_list_is_said_on_standard_error_and_stdout_stays_empty(place: Place) -> None:
    result = place.call("msg", "tail", "--topic-id", place.topic)
    assert (result.code, result.stdout, result.stderr) == (0, "", "No messages.\n")


def test_h12_an_empty_search_is_refused_as_over_http(place: Place) -> None:
    for query in ("", "   ", "x" * 1001):
        result = place.call("search", query, "--json")
        assert (result.code, result.json.get("code")) == (1, "INVALID_INPUT")
        assert result.json["details"] == {"field": "query"}


def test_h12_lists_are_json_lines_where_they_are_asked_for(place: Place) -> None:
    place.ok("msg", "send", "--topic-id", place.topic, "--sender", "ann", "one\nline")
    place.ok("msg", "send", "--topic-id", place.topic, "--sender", "bob", "two")
    lists = [
        (["msg", "tail", "--topic-id", place.topic], "messages"),
        (["msg", "page", "--topic-id", place.topic], "messages"),
        (["topic", "list", "--channel", place.channel], "topics"),
        (["search", "two", "--channel", place.channel], "messages"),
        (["attachment", "list", "--topic-id", place.topic], "attachments"),
        (["agent", "list"], "agents"),
        (["task", "list"], "tasks"),
        (["lease", "list"], "leases"),
    ]
    for words, name in lists:
        result = place.call(*words, "--jsonl")
        assert (result.code, result.stderr) == (0, ""), result.stdout
        assert [json.loads(line) for line in result.stdout.splitlines()] == place.ok(*words)[name]
    more = place.call("--jsonl", "msg", "page", "--topic-id", place.topic, "--limit", "1")
    assert [json.loads(line)["sender"] for line in more.stdout.splitlines()] == ["bob"]
    assert "more than these" in more.stderr


def test_h12_what_is_no_list_is_one_json_line(place: Place) -> None:
    sent = place.call("msg", "send", "--topic-id", place.topic, "--sender", "ann", "hi", "--jsonl")
    assert sent.stdout.count("\n") == 1
    assert json.loads(sent.stdout)["status"] == "ok"
    for words in (["topic", "list", "--channel", "nowhere"], ["topic", "list", "--wrong"], ["topic"]):
        refused = place.call("--jsonl", *words)
        assert refused.code == 1
        assert refused.stdout.count("\n") == 1
        assert json.loads(refused.stdout)["status"] == "error"


def test_the_shared_options_may_stand_before_the_command(parley: Parley, hub: Serving) -> None:
    before = parley("--json", "--workspace", hub.root, "channel", "list")
    after = parley("channel", "list", "-w", hub.root, "--json")
    assert before.code == after.code == 0
    assert before.json["status"] == after.json["status"] == "ok"


def test_the_workspace_is_found_from_a_folder_below(
    parley: Parley, hub: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = hub.root / "deep" / "er"
    below.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(below)
    assert parley("channel", "list", "--json").json["status"] == "ok"


@pytest.mark.parametrize("words", [["channel", "list"], ["channel", "create"]], ids=" ".join)
def test_neither_a_read_nor_a_change_loads_more_than_it_needs(words: list[str], hub: Serving) -> None:
    code = (
        "import sys\nfrom parley.cli.root import run\nassert run(sys.argv[1:]) == 0\n"
        "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)"
    )
    name = [hub.new_name()] if words[1] == "create" else []
    argv = [sys.executable, "-c", code, *words, *name, "-w", str(hub.root)]
    loaded = set(subprocess.run(argv, capture_output=True, text=True, check=True).stderr.split())
    unwanted = {"rich", "pydantic", "websockets", "uvicorn", "starlette", "structlog", "parley.app", "parley.hub"}
    assert loaded & (unwanted | ({"httpx", "parley.client"} if words[1] == "list" else set())) == set()


def test_a_wrong_token_exits_with_4(parley: Parley, hub: Serving, tmp_path: Path) -> None:
    """The same hub, seen from a workspace whose server.json carries another token."""
    state = tmp_path / ".parley"
    state.mkdir(mode=0o700)
    for name in ("db.sqlite3", "server.json"):
        (state / name).write_bytes((hub.root / ".parley" / name).read_bytes())
    server = json.loads((state / "server.json").read_text())
    (state / "server.json").write_text(json.dumps({**server, "auth_token": "0" * 64}))
    for words in (["channel", "create", "x"], ["listen", "--since", "0"]):
        result = parley(*words, "--workspace", tmp_path, "--json")
        assert result.code == 4
        assert json.loads(result.stdout)["code"] == "INVALID_AUTH"


def test_bytes_that_are_no_text_are_refused_and_nothing_is_sent(hub: Serving, place: Place) -> None:
    no_text = "caf\udce9"  # what Python makes of a Latin-1 argument
    for words in (
        ["msg", "send", no_text, "--topic-id", place.topic, "--sender", "ann"],
        ["msg", "tail", "--topic-id", no_text],
        ["topic", "rename", no_text, "--title", "x"],
        ["search", no_text],
    ):
        assert place.refused(*words) == (1, "INVALID_INPUT")
    sending = parley_process_bytes(hub, place, b"caf\xe9\n")
    assert (sending.returncode, json.loads(sending.stdout)["code"]) == (1, "INVALID_INPUT")
    assert sending.stderr == b""
    assert place.ok("msg", "tail", "--topic-id", place.topic)["count"] == 0


def test_text_from_a_pipe_is_kept_as_it_is(hub: Serving, place: Place) -> None:
    assert parley_process_bytes(hub, place, "a\r\nb\rc\0é\n".encode()).returncode == 0
    [message] = place.ok("msg", "tail", "--topic-id", place.topic)["messages"]
    assert message["content_raw"] == "a\r\nb\rc\0é"


def test_an_endless_pipe_is_refused_without_reading_it_to_its_end(hub: Serving, place: Place) -> None:
    with Path("/dev/zero").open("rb") as endless:
        refused = parley_process_bytes(hub, place, endless)
    assert json.loads(refused.stdout)["code"] == "PAYLOAD_TOO_LARGE"


def parley_process_bytes(hub: Serving, place: Place, stdin: bytes | IO[bytes]) -> "subprocess.CompletedProcess[bytes]":
    """Sends a message from standard input, as a process whose locale says nothing about UTF-8."""
    words = ["--json", "-w", str(hub.root), "msg", "send", "--stdin", "--topic-id", place.topic, "--sender", "ann"]
    given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run(
        [sys.executable, "-m", "parley", *words],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
        **given,
    )
