"""The mesh's commands as people type them: one broker, a few homes, every command a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.wire.roster_invites import decode_roster_invite
from tests.broker.process import SECONDS
from tests.daemon.homes import Home, World, opened_room


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with opened_room() as room:
        yield World(room)


def test_an_owner_whose_daemon_was_just_started_has_a_key_and_can_invite(world: World) -> None:
    owner = world.home("founder")
    owner.asks("mesh", "create", "young", "--broker", world.process.http, "--name", "founder")
    assert owner.types("daemon", "up").code == 0
    with owner.client() as client:
        assert client.invite().invite.startswith("parley-invite-2:")
        assert client.health().meshes[0].key_epoch == 1


def test_a_message_goes_from_one_home_to_another_and_back(world: World) -> None:
    bob = world.joined("bob")
    sent = world.ann.asks("send", "bob", "hello", "--id", "m-1")
    assert (sent["client_message_id"], sent["delivery"]) == ("m-1", "queued")
    bob.gets("hello")
    world.ann.until(lambda client: client.outbox_row("m-1").status == "done")
    assert " of 1" in world.ann.types("daemon", "outbox", "list").out
    assert "hello" in bob.types("inbox").out
    assert "Nothing has arrived." in bob.types("inbox", "--wait", "1").err
    assert bob.types("send", "*", "to all").code == 0
    world.ann.gets("to all")
    assert "bob" in world.ann.types("mesh", "peers").out


def test_a_damaged_invite_is_refused_before_it_is_used(world: World) -> None:
    text = world.invite()
    home = world.home("damaged")
    for damaged in (f"{text[:-6]}AAAAAA", text.partition(".")[0]):
        said = home.types("mesh", "join", damaged, "--json")
        assert (said.code, said.json["code"]) == (1, "INVALID_INPUT"), damaged
        assert "copy the whole text again" in said.json["error"]
    used = {each["invite_id"]: each["uses"] for each in world.calls("invites")["invites"]}
    assert used[decode_roster_invite(text)[0].invite.id] == 0


def test_what_is_sent_before_the_mesh_key_has_come_waits_for_it(world: World) -> None:
    owner, home = world.home("sleeper"), world.home("early")
    owner.asks("mesh", "create", "asleep", "--broker", world.process.http, "--name", "sleeper")
    assert owner.types("daemon", "up").code == 0
    with owner.client() as client:
        invite = client.invite().invite
    assert owner.types("daemon", "down").code == 0
    home.asks("mesh", "join", invite, "--name", "early")
    assert home.types("daemon", "up").code == 0
    assert "waits for the mesh key since" in home.types("daemon", "status").out
    home.asks("send", "*", "as soon as it can be sealed")
    assert owner.types("daemon", "up").code == 0
    owner.gets("as soon as it can be sealed")


def test_who_was_banned_is_told_so_by_every_command_and_comes_back_once_the_ban_is_lifted(world: World) -> None:
    home = world.joined("banned")
    pubkey = home.asks("mesh", "list")["meshes"][0]["pubkey"]
    world.ann.asks("mesh", "ban", "banned")
    home.until_ended()
    why = "team: the member was removed from the mesh"
    said = home.types("daemon", "status")
    assert (said.code, why in said.out, "parley mesh leave" in said.out) == (3, True, True)
    assert home.types("daemon", "status", "--json").json["ended"][0]["removed"] is True
    assert why in home.types("mesh", "list").out
    for words in (("daemon", "up"), ("send", "ann", "hello")):
        said = home.types(*words, "--json")
        assert (said.code, said.json["code"], said.json["error"]) == (29, "MEMBERSHIP_LOST", why)
    invite = world.invite()
    said = home.types("mesh", "join", invite, "--json")
    assert (said.code, said.json["code"], said.json["details"]["reason"]) == (4, "INVITE_REFUSED", "banned")
    assert world.ann.asks("mesh", "unban", "banned")["state"] == "left"
    assert home.asks("mesh", "join", invite, "--name", "banned")["mesh"]["pubkey"] == pubkey
    assert home.types("daemon", "up").code == 0
    home.has_key()
    assert home.asks("mesh", "list")["meshes"][0]["ended"] is None
    home.asks("send", "*", "I am back")
    world.ann.gets("I am back")


def test_who_was_removed_comes_back_by_a_new_invite_as_a_new_member(world: World) -> None:
    home = world.joined("removed")
    before = home.asks("mesh", "list")["meshes"][0]
    home.types("daemon", "down")
    world.calls("revoke", member="removed")
    after = home.asks("mesh", "join", world.invite(), "--name", "again")["mesh"]
    assert after["display_name"] == "again"
    assert after["member_id"] != before["member_id"]
    assert home.types("daemon", "up").code == 0
    home.has_key()
    with world.ann.client() as client:
        client.send("again", "welcome back")
    home.gets("welcome back")


def test_who_was_removed_can_leave_without_a_daemon(world: World) -> None:
    home = world.joined("leaver")
    world.calls("revoke", member="leaver")
    home.until_ended()
    assert home.asks("mesh", "leave")["state"] == "removed"
    assert home.asks("mesh", "list")["meshes"] == []


def test_a_mesh_can_be_forgotten_here_alone(world: World) -> None:
    home = world.home("local")
    home.asks("mesh", "join", world.invite(), "--name", "local")
    said = home.types("mesh", "leave", "--json")
    assert (said.code, said.json["code"], "--local" in said.json["error"]) == (3, "DAEMON_NOT_RUNNING", True)
    assert home.asks("mesh", "leave", "--local")["state"] == "forgotten"
    said = home.types("mesh", "join", world.invite(), "--name", "local", "--json")
    assert (said.code, said.json["code"]) == (2, "NAME_TAKEN"), "to the others it is a member"
    home.asks("mesh", "join", world.invite(), "--name", "local-2")
    assert home.types("daemon", "up").code == 0
    assert home.asks("mesh", "leave", "--local")["state"] == "forgotten"
    assert home.asks("daemon", "status")["meshes"] == []


def test_an_ephemeral_daemon_sends_what_it_took_and_is_no_member_afterwards(world: World) -> None:
    argv = [sys.executable, "-P", "-m", "parley", "daemon", "up", "--ephemeral", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += process.stdout.readline()
        guest = Home(Path(json.loads(text)["home"]))
        with guest.client() as client:
            client.join(world.invite(), "guest")
        guest.has_key()
        until = {each["display_name"]: each["until"] for each in world.calls("members")["members"]}
        assert (until["ann"], until["guest"] is None) == (None, False)
        with guest.client() as client:
            for number in range(20):
                client.send("ann", f"last words {number}")
        process.terminate()
        assert process.wait(SECONDS) == 0
    states = {each["display_name"]: each["state"] for each in world.calls("members")["members"]}
    assert states["guest"] == "left"
    for number in range(20):
        world.ann.gets(f"last words {number}")


def test_a_name_that_is_not_allowed_is_told_in_a_sentence(world: World) -> None:
    for words, said in (
        (("mesh", "create", "Bad Slug", "--broker", world.process.http), "slug: must be lowercase letters"),
        (("mesh", "subscribe", "a\nb"), "topic: must not be empty or contain control characters"),
        (("mesh", "group", "@x"), "group: must not be empty or contain '@'"),
        (("mesh", "join", world.invite(), "--name", "#x"), "name: must be a name that can be seen"),
    ):
        refused = world.ann.types(*words, "--json")
        assert (refused.code, refused.json["code"]) == (1, "INVALID_INPUT"), words
        assert said in refused.json["error"]


def test_a_reload_names_the_hooks_and_the_settings_that_it_took(world: World) -> None:
    home = world.home("reloaded")
    assert home.types("daemon", "up").code == 0
    hooks = home.folder / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "hooks.toml").write_text("[on-dm]\n")
    (hooks / "on-dm.py").write_text("")
    (home.folder / "daemon.toml").write_text("[ipc]\nrequests_max = 7\n")
    said = home.types("daemon", "reload").out
    assert "Changed: ipc.requests_max." in said
    assert "Hooks: on-dm." in said


def test_a_mesh_is_shown_and_its_owner_says_what_becomes_of_a_second_daemon(world: World) -> None:
    assert "second daemon of a member: prefer_newest" in world.ann.types("mesh", "show").out
    assert world.ann.asks("mesh", "policy", "allow_concurrent")["changed"] is True
    try:
        shown = world.ann.asks("mesh", "show")
        assert (shown["slug"], shown["connection_policy"], shown["members_max"]) == ("team", "allow_concurrent", 1000)
        assert world.ann.types("mesh", "policy", "allow_concurrent").out == "allow_concurrent, as before.\n"
        assert "connection_policy_changed" in world.ann.types("mesh", "audit", "--limit", "1000").out
    finally:
        world.calls("set_connection_policy", policy="prefer_newest")
    assert world.ann.types("mesh", "policy", "prefer_me").code == 1


def test_an_invite_that_never_was_is_not_said_to_be_revoked(world: World) -> None:
    said = world.ann.types("mesh", "uninvite", "nope", "--json")
    assert (said.code, said.json["code"]) == (1, "NOT_FOUND")
    assert "parley mesh invites" in said.json["error"]
    invite_id = decode_roster_invite(world.invite())[0].invite.id
    assert world.ann.asks("mesh", "uninvite", invite_id)["changed"] is True
    assert world.ann.types("mesh", "uninvite", invite_id).out.strip() == "It was revoked before."


def test_who_joins_again_under_another_name_is_told_that_it_keeps_the_first(world: World) -> None:
    home, invite = world.home("twice"), world.invite()
    home.asks("mesh", "join", invite, "--name", "first")
    said = home.types("mesh", "join", invite, "--name", "second")
    assert (said.code, said.out.strip()) == (0, "first is member of team.")
    assert "still called first" in said.err
