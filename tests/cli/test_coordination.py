"""Agents, tasks and leases on the command line, against a real hub and the file it writes."""

from typing import Any

import pytest

from tests.cli.conftest import Parley, Serving


class Desk:
    """A channel of a test's own in the shared hub, and short ways to call."""

    def __init__(self, parley: Parley, hub: Serving) -> None:
        self._parley = parley
        self._hub = hub
        self.channel = hub.new_name()
        self.ok("channel", "create", self.channel)

    def call(self, *args: str) -> Any:
        return self._parley(*args, "--workspace", self._hub.root)

    def ok(self, *args: str, code: int = 0) -> Any:
        result = self.call("--json", *args)
        assert result.code == code, result.stdout
        assert result.json["status"] == "ok"
        return result.json

    def refused(self, *args: str) -> tuple[int, str]:
        result = self.call("--json", *args)
        assert result.json["hint"]
        return result.code, result.json["code"]

    def task(self, title: str = "do it") -> str:
        return self.ok("task", "create", title, "--channel", self.channel, "--agent", "ann")["task"]["id"]


@pytest.fixture
def desk(parley: Parley, hub: Serving, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for variable in ("PARLEY_AGENT", "TMUX_PANE", "STY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PARLEY_SESSION", hub.new_name())
    return Desk(parley, hub)


def test_a_task_from_its_making_to_its_end(desk: Desk) -> None:
    task = desk.task("Write the guide")
    assert desk.ok("task", "show", task)["task"]["status"] == "open"
    claimed = desk.ok("task", "claim", task, "--agent", "bob", "--ttl", "60")["task"]
    assert (claimed["holder"], claimed["generation"]) == ("bob", 1)
    assert desk.refused("task", "claim", task, "--agent", "eve") == (2, "TASK_HELD")
    assert desk.ok("task", "renew", task, "--agent", "bob")["event_id"] is None
    assert desk.refused("task", "renew", task, "--agent", "bob", "--generation", "7") == (2, "TASK_NOT_HELD")
    assert desk.ok("task", "release", task, "--agent", "bob", "--reason", "lunch")["task"]["status"] == "open"
    desk.ok("task", "claim", task, "--agent", "eve")
    assert desk.refused("task", "take-over", task, "--agent", "bob") == (2, "TASK_HELD")
    assert desk.refused("task", "take-over", task, "--agent", "bob", "--force") == (1, "INVALID_INPUT")
    taken = desk.ok("task", "take-over", task, "--agent", "bob", "--force", "--reason", "it is mine")["task"]
    assert (taken["holder"], taken["generation"]) == ("bob", 3)
    done = desk.ok("task", "complete", task, "--agent", "bob", "--result", "in the wiki")["task"]
    assert (done["status"], done["result"]) == ("completed", "in the wiki")
    assert desk.refused("task", "cancel", task, "--agent", "ann") == (2, "TASK_CLOSED")


def test_tasks_are_listed_and_the_next_one_is_taken(desk: Desk) -> None:
    first, second = desk.task("1"), desk.task("2")
    listed = desk.ok("task", "list", "--channel", desk.channel)
    assert [task["id"] for task in listed["tasks"]] == [second, first]
    assert desk.ok("task", "claim", "--channel", desk.channel, "--agent", "bob")["task"]["id"] == first
    assert desk.ok("task", "list", "--channel", desk.channel, "--status", "open")["count"] == 1
    assert desk.ok("task", "list", "--channel", desk.channel, "--holder", "bob")["count"] == 1
    desk.ok("task", "claim", "--channel", desk.channel, "--agent", "bob")
    assert desk.ok("task", "claim", "--channel", desk.channel, "--agent", "bob")["task"] is None
    empty = desk.call("task", "claim", "--channel", desk.channel, "--agent", "bob")
    assert (empty.code, empty.stdout, empty.stderr) == (0, "", "No task is open.\n")
    desk.ok("task", "cancel", first, "--agent", "ann", "--reason", "no need")
    assert desk.ok("task", "show", first)["task"]["status"] == "cancelled"


def test_what_a_person_reads_of_tasks(desk: Desk) -> None:
    task = desk.task("Paint the fence")
    line = desk.call("task", "claim", task, "--agent", "bob").stdout
    assert line.startswith(f"{task}\tclaimed\tgeneration 1\tuntil 20")
    assert "bob" in desk.call("task", "list", "--channel", desk.channel).stdout
    assert "title\tPaint the fence" in desk.call("task", "show", task).stdout


def test_paths_are_reserved_checked_renewed_and_given_back(desk: Desk) -> None:
    folder = desk.channel
    lease = desk.ok("lease", "acquire", f"{folder}/**", "--agent", "bob", "--reason", "moving")["lease"]
    refusal = desk.call("--json", "lease", "acquire", f"{folder}/a", "--agent", "eve")
    assert (refusal.code, refusal.json["code"]) == (2, "LEASE_CONFLICT")
    assert refusal.json["details"]["conflicts"][0]["holder"] == "bob"
    hits = desk.ok("lease", "check", f"{folder}/a", "elsewhere", "--agent", "eve", code=2)["hits"]
    assert [(hit["wanted"], hit["holder"], hit["reason"]) for hit in hits] == [(f"{folder}/a", "bob", "moving")]
    assert desk.ok("lease", "check", f"{folder}/a", "--agent", "bob")["hits"] == []
    assert desk.ok("lease", "renew", lease["id"], "--agent", "bob")["lease"]["id"] == lease["id"]
    assert desk.refused("lease", "renew", lease["id"], "--agent", "eve") == (2, "LEASE_LOST")
    assert desk.ok("lease", "list", "--holder", "bob")["leases"][0]["id"] == lease["id"]
    assert desk.ok("lease", "release", lease["id"], "--agent", "bob")["leases"][0]["status"] == "released"
    shared = desk.ok("lease", "acquire", f"{folder}/x", "--shared", "--agent", "eve")["lease"]
    assert shared["mode"] == "shared"
    desk.ok("lease", "check", f"{folder}/x", "--agent", "bob")
    desk.ok("lease", "check", f"{folder}/x", "--agent", "bob", "--alone", code=2)
    desk.ok("lease", "acquire", f"{folder}/y", "--agent", "eve")
    assert desk.ok("lease", "release", "--all", "--agent", "eve")["count"] == 2
    assert desk.refused("lease", "release", "--agent", "eve") == (1, "INVALID_INPUT")
    assert desk.ok("lease", "list", "--status", "all", "--holder", "eve")["count"] == 2


def test_a_list_that_is_cut_says_so(desk: Desk) -> None:
    for name in ("ann", "ben"):
        desk.ok("lease", "acquire", f"{desk.channel}/{name}", "--agent", "tom")
    cut = desk.call("lease", "list", "--holder", "tom", "--limit", "1")
    assert (len(cut.stdout.splitlines()), "There are more than these" in cut.stderr) == (1, True)
    assert "There are more" not in desk.call("lease", "list", "--holder", "tom", "--limit", "2").stderr
    for session in ("one", "two"):
        desk.ok("agent", "register", "--session", session)
    assert desk.ok("agent", "list", "--limit", "1")["hasMore"] is True
    assert "There are more than these" in desk.call("agent", "list", "--limit", "1").stderr


def test_what_a_person_reads_of_leases(desk: Desk) -> None:
    folder = desk.channel
    line = desk.call("lease", "acquire", folder, "--agent", "zoe").stdout
    lease = line.split("\t")[0]
    assert folder in desk.call("lease", "list", "--holder", "zoe").stdout
    taken = desk.call("lease", "check", f"{folder}/a", "--agent", "eve")
    assert taken.code == 2
    assert taken.stdout.startswith(f"{folder}/a\tzoe\texclusive\t")
    assert desk.call("lease", "renew", lease, "--agent", "zoe").stdout.startswith(lease)
    assert desk.call("lease", "release", lease, "--agent", "zoe").stdout == f"{lease}\treleased\n"
    free = desk.call("lease", "check", f"{folder}/a", "--agent", "eve")
    assert (free.code, free.stdout) == (0, "")


def test_a_session_has_one_name_until_it_leaves_and_comes_back(desk: Desk) -> None:
    name = desk.ok("agent", "whoami")["name"]
    assert desk.call("agent", "whoami").stdout == f"{name}\n"
    assert desk.ok("agent", "register", "--model", "m-1")["agent"]["name"] == name
    assert desk.ok("agent", "heartbeat")["agent"]["state"] == "active"
    task = desk.task()
    assert desk.ok("task", "claim", task)["task"]["holder"] == name
    assert desk.ok("agent", "leave", "--reason", "done")["agent"]["state"] == "gone"
    assert desk.ok("task", "show", task)["task"]["status"] == "open"
    assert name in {agent["name"] for agent in desk.ok("agent", "list", "--state", "gone", "--limit", "1000")["agents"]}
    assert f"{name}\tgone" in desk.call("agent", "list", "--limit", "1000").stdout
    assert desk.call("agent", "register").stdout == f"{name}\tactive\n"


def test_a_chosen_name_counts_everywhere(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_AGENT", "overseer")
    assert desk.ok("agent", "whoami")["chosen"] is True
    assert desk.ok("agent", "register", "--session", "one")["agent"]["name"] == "overseer"
    assert desk.refused("agent", "register", "--session", "two") == (2, "AGENT_NAME_TAKEN")
    assert desk.ok("lease", "acquire", desk.channel)["lease"]["holder"] == "overseer"
