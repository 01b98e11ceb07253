"""What a member makes of a message, by its own copy of the roster and whatever a broker says around it."""

import secrets
from typing import Any

import pytest
from msgspec.structs import replace

from parley.core import sealing
from parley.core.roster import State, apply_all, entries
from parley.core.roster.entries import entry_hash
from parley.core.roster.epoch_keys import EpochKeys
from parley.core.roster.heads import Head, sign_head
from parley.core.sealed_messages import Context, Said, seal_for_one, seal_for_several
from parley.daemon.inbox.receive import Opened, SealedMessage, TurnedDown, Waiting
from parley.daemon.outbox.accept import Sealed
from parley.daemon.outbox.rows import OutboxRow
from parley.daemon.outbox.sending import Delay, Hopeless
from parley.daemon.rosters.copy import Marks, View
from parley.daemon.rosters.messages import KEY_OWED, NO_KEY, NO_ROSTER, SPLIT, Reader, open_message, seal_row
from tests.core.roster.town import Town
from tests.daemon.rosters.holder import keys_of

BROKER = b"\5" * 32


@pytest.fixture
def town() -> Town:
    made = Town()
    made.do("ada", "broker", entries.NameBroker(sealing.public_key(BROKER).hex()))
    for name in ("bob", "cid"):
        made.join(name)
    assert made.new_key() == ""
    return made


def head(town: Town, n: int | None = None, seed: bytes = BROKER) -> Head:
    number = town.state.n if n is None else n
    digest = entry_hash(town.log[number]) if number < len(town.log) else "ab" * 32
    return sign_head(number, digest, fingerprint=town.state.fingerprint, seed=seed)


def who(town: Town, name: str, read: int | None = None, **marks: Any) -> Reader:
    """A member that has read so many entries."""
    state = apply_all(None, town.log[:read])
    assert isinstance(state, State)
    hashes = [entry_hash(each) for each in town.log[:read]]
    seed = town.seeds[name]
    known = Marks(**{"head": head(town, state.n), **marks})
    held = [keys_of(epoch) for epoch in state.epochs]
    return Reader(town.ids[name], seed, [seed], View(state, hashes, known), held)


def row(to: str, kind: Any = "dm", client_id: str = "c1", text: str = "hello") -> OutboxRow:
    return OutboxRow(
        seq=1,
        id="out_1",
        client_message_id=client_id,
        request_fingerprint=b"",
        mesh_id="mesh_1",
        to_spec=to,
        destination_kind=kind,
        destination_ref=to,
        reply_to_id=None,
        priority="next",
        meta='{"a":1}',
        mentions="[]",
        payload=text.encode(),
        sender_identity="",
        sealed=b"",
        key_epoch=None,
        wire_fingerprint=bytes(32),
        enqueued_at=0,
    )


def sent(town: Town, sender: str, asked: OutboxRow, by: Reader | None = None) -> SealedMessage:
    """The message as a broker that does as it should would hand it on."""
    sealed = seal_row(asked, by or who(town, sender), secrets.token_bytes)
    assert isinstance(sealed, Sealed), sealed
    return SealedMessage(
        sealed.sender,
        asked.destination_kind,
        asked.destination_ref,
        asked.reply_to_id or "",
        sealed.key_epoch,
        sealed.body,
        town.ids[sender],
        asked.client_message_id,
    )


def to_bob(town: Town, **changes: Any) -> OutboxRow:
    return row(town.ids["bob"], **changes)


def to_all(**changes: Any) -> OutboxRow:
    return row("*", "queue", **changes)


def opened(found: object) -> tuple[str, dict[str, Any]]:
    assert isinstance(found, Opened), found
    return found.body, found.meta


@pytest.mark.parametrize("kind", ["dm", "queue"])
def test_what_is_sealed_is_opened_with_how_far_its_sender_had_read(town: Town, kind: str) -> None:
    message = sent(town, "ada", to_bob(town) if kind == "dm" else to_all())
    found = open_message(message, who(town, "bob"))
    assert opened(found) == ("hello", {"a": 1})
    assert isinstance(found, Opened)
    assert found.head == head(town)


def test_nobody_else_opens_a_direct_message(town: Town) -> None:
    message = sent(town, "ada", to_bob(town))
    assert open_message(message, who(town, "cid")) is None
    assert open_message(message._replace(ref=town.ids["cid"]), who(town, "cid")) is None


@pytest.mark.parametrize("kind", ["dm", "queue"])
@pytest.mark.parametrize(
    "changes", [{"client_message_id": "c2"}, {"reply_to": "bm_9"}, {"kind": "topic"}], ids=["id", "reply", "kind"]
)
def test_the_same_bytes_do_not_open_in_another_envelope(town: Town, kind: str, changes: dict[str, str]) -> None:
    message = sent(town, "ada", to_bob(town) if kind == "dm" else to_all())
    assert open_message(message._replace(**changes), who(town, "bob")) is None


@pytest.mark.parametrize("kind", ["dm", "queue"])
def test_no_broker_passes_a_message_off_as_another_members(town: Town, kind: str) -> None:
    message = sent(town, "ada", to_bob(town) if kind == "dm" else to_all())
    cid = sealing.public_key(town.seeds["cid"]).hex()
    for forged in (message._replace(sender_id=town.ids["cid"], sender_pubkey=cid), message._replace(sender_pubkey=cid)):
        assert not isinstance(open_message(forged._replace(again=True), who(town, "bob")), Opened)


def test_who_has_the_mesh_key_still_cannot_speak_for_another(town: Town) -> None:
    state, keys = town.state, keys_of(1)
    context = Context(state.fingerprint, "queue", "*", town.ids["ada"], "c1", 1)
    said = Said("forged", {}, head(town))
    body = seal_for_several(
        said, context, sender_seed=town.seeds["cid"], mesh_key=keys.mesh, random=secrets.token_bytes
    )
    ada = sealing.public_key(town.seeds["ada"]).hex()
    message = SealedMessage(ada, "queue", "*", "", 1, body, town.ids["ada"], "c1")
    assert open_message(message, who(town, "bob")) == TurnedDown("sender_not_proven")


def test_a_key_that_the_roster_does_not_commit_to_opens_nothing(town: Town) -> None:
    other = EpochKeys(1, b"\1" * 32, keys_of(1).data)
    context = Context(town.state.fingerprint, "queue", "*", town.ids["ada"], "c1", 1)
    said, seed = Said("hello", {}, head(town)), town.seeds["ada"]
    body = seal_for_several(said, context, sender_seed=seed, mesh_key=other.mesh, random=secrets.token_bytes)
    ada = sealing.public_key(seed).hex()
    message = SealedMessage(ada, "queue", "*", "", 1, body, town.ids["ada"], "c1")
    assert open_message(message, who(town, "bob")._replace(held=[other, keys_of(1)])) is None
    assert seal_row(to_all(), who(town, "ada")._replace(held=[other]), secrets.token_bytes) == Delay(NO_KEY)


def test_what_is_sealed_to_a_member_and_says_that_it_is_for_another_is_not_opened(town: Town) -> None:
    context = Context(town.state.fingerprint, "dm", town.ids["cid"], town.ids["ada"], "c1", 1)
    said, seed = Said("hello", {}, head(town)), town.seeds["ada"]
    bob = sealing.public_key(town.seeds["bob"])
    body = seal_for_one(said, context, sender_seed=seed, recipient=bob, random=secrets.token_bytes)
    ada = sealing.public_key(seed).hex()
    message = SealedMessage(ada, "dm", town.ids["cid"], "", 1, body, town.ids["ada"], "c1")
    assert open_message(message, who(town, "bob")) is None


@pytest.mark.parametrize("kind", ["remove", "ban"])
def test_what_comes_from_somebody_whose_removal_was_read_is_not_shown(town: Town, kind: Any) -> None:
    message = sent(town, "cid", to_all())
    before = who(town, "bob")
    town.do("ada", kind, town.of("cid"))
    assert opened(open_message(message, before))[0] == "hello"
    assert open_message(message, who(town, "bob")) == TurnedDown("sender_removed")


def test_what_somebody_said_before_it_left_is_taken_and_nothing_that_is_sealed_later(town: Town) -> None:
    message, late = sent(town, "cid", to_all()), who(town, "cid")
    town.do("cid", "leave", entries.Leave())
    assert opened(open_message(message, who(town, "bob")))[0] == "hello"
    assert town.new_key() == ""
    later = late._replace(view=who(town, "ada").view, held=[keys_of(1), keys_of(2)])
    assert open_message(sent(town, "cid", to_all(client_id="c2"), later), who(town, "bob")) == TurnedDown("sender_left")


def test_a_replaced_key_is_taken_as_far_as_its_epoch_goes_and_not_at_all_if_it_was_compromised(town: Town) -> None:
    old = who(town, "cid")
    message = sent(town, "cid", to_bob(town), old)
    assert town.rotate("cid") == ""
    assert opened(open_message(message, who(town, "bob")))[0] == "hello"
    assert town.new_key() == ""
    later = old._replace(view=who(town, "ada").view, held=[keys_of(1), keys_of(2)])
    by_old = sent(town, "cid", to_bob(town, client_id="c2"), later)
    assert open_message(by_old, who(town, "bob")) == TurnedDown("replaced_key")
    second = sent(town, "cid", to_bob(town, client_id="c3"))
    assert town.rotate("cid", compromised=True) == ""
    assert open_message(second, who(town, "bob")) == TurnedDown("compromised_key")


def test_what_a_newcomer_says_waits_until_its_entry_was_read(town: Town) -> None:
    read = len(town.log)
    town.join("dan")
    message = sent(town, "dan", to_all())
    assert open_message(message, who(town, "bob", read)) == Waiting(None)
    assert opened(open_message(message, who(town, "bob")))[0] == "hello"
    assert open_message(message._replace(again=True), who(town, "bob", read)) == TurnedDown("unknown_sender")


def test_nothing_is_judged_before_the_roster_was_read(town: Town) -> None:
    reader = who(town, "bob")._replace(view=None)
    assert open_message(sent(town, "ada", to_all()), reader) == Waiting(None)
    assert seal_row(to_all(), reader, secrets.token_bytes) == Delay(NO_ROSTER)


def test_a_head_that_is_ahead_is_read_up_to_and_a_message_that_lies_about_it_is_turned_down(town: Town) -> None:
    read = len(town.log)
    town.do("ada", "rename", entries.Rename("ann"))
    message = sent(town, "ada", to_all())
    behind = who(town, "bob", read)
    assert open_message(message, behind) == Waiting(head(town))
    assert opened(open_message(message._replace(again=True), who(town, "bob")))[0] == "hello"
    lied = who(town, "ada", head=head(town, 99, b"\6" * 32))
    lie = sent(town, "ada", to_all(client_id="c2"), lied)
    assert open_message(lie, who(town, "bob")) == Waiting(head(town, 99, b"\6" * 32))
    assert open_message(lie._replace(again=True), who(town, "bob")) == TurnedDown("lied_about_roster")


def test_what_the_broker_has_signed_and_does_not_serve_is_waited_for_until_it_is_a_split(town: Town) -> None:
    ahead = head(town, 99)
    message = sent(town, "ada", to_all(), who(town, "ada", head=ahead))._replace(again=True)
    assert open_message(message, who(town, "bob")) == Waiting(ahead)
    assert opened(open_message(message, who(town, "bob", split=ahead)))[0] == "hello"


def test_a_head_beside_the_chain_is_a_lie_unless_the_broker_has_signed_it(town: Town) -> None:
    other = replace(head(town), hash="cd" * 32)
    lie = sent(town, "ada", to_all(), who(town, "ada", head=other))
    assert open_message(lie, who(town, "bob")) == TurnedDown("lied_about_roster")
    signed = sign_head(town.state.n, "cd" * 32, fingerprint=town.state.fingerprint, seed=BROKER)
    split = open_message(sent(town, "ada", to_all(), who(town, "ada", head=signed)), who(town, "bob"))
    assert isinstance(split, Opened)
    assert split.head == signed


def test_a_message_without_a_head_is_not_shown_as_said(town: Town) -> None:
    message = sent(town, "ada", to_all(), who(town, "ada", head=None))
    assert open_message(message, who(town, "bob")) == TurnedDown("no_head")


@pytest.mark.parametrize("asked", [to_all(), row("mem_nobody")], ids=["several", "one"])
def test_nothing_is_sealed_while_the_mesh_is_split(town: Town, asked: OutboxRow) -> None:
    assert seal_row(asked, who(town, "ada", split=head(town, 99)), secrets.token_bytes) == Delay(SPLIT)


def test_what_several_read_waits_for_the_key_that_a_removal_owes(town: Town) -> None:
    town.do("ada", "remove", town.of("cid"))
    assert town.state.owed == "now"
    assert seal_row(to_all(), who(town, "ada"), secrets.token_bytes) == Delay(KEY_OWED)
    assert town.new_key() == ""
    assert isinstance(seal_row(to_all(), who(town, "ada"), secrets.token_bytes), Sealed)
    only_old = who(town, "ada")._replace(held=[keys_of(1)])
    assert seal_row(to_all(), only_old, secrets.token_bytes) == Delay(NO_KEY)


def test_a_message_to_somebody_who_is_gone_will_never_be_sent(town: Town) -> None:
    asked = to_bob(town)
    assert isinstance(seal_row(asked, who(town, "ada"), secrets.token_bytes), Sealed)
    town.do("ada", "remove", town.of("bob"))
    assert town.new_key() == ""
    assert isinstance(seal_row(asked, who(town, "ada"), secrets.token_bytes), Hopeless)


def test_metadata_that_no_recipient_would_take_is_unreadable(town: Town) -> None:
    deep: dict[str, Any] = {}
    for _ in range(70):
        deep = {"d": deep}
    state = town.state
    context = Context(state.fingerprint, "queue", "*", town.ids["cid"], "c1", 1)
    body = seal_for_several(
        Said("deep", deep, head(town)),
        context,
        sender_seed=town.seeds["cid"],
        mesh_key=keys_of(1).mesh,
        random=secrets.token_bytes,
    )
    message = SealedMessage(
        sealing.public_key(town.seeds["cid"]).hex(), "queue", "*", "", 1, body, town.ids["cid"], "c1"
    )
    assert open_message(message, who(town, "bob")) is None
