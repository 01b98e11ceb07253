"""What is sealed says nothing to a broker, and opens only where, by whom and for what it was meant."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.core import sealing
from parley.core.canonical import canonical_json
from parley.core.daemon_errors import MeshKeyMissing, MeshNotAttached
from parley.core.errors import InvalidInput, PayloadTooLarge, Refused
from parley.core.sealing import Context
from parley.daemon.inbox.receive import SealedMessage
from parley.daemon.key_archive import DAY_MS, KEYS_MAX, KeyArchive
from parley.daemon.memberships import Memberships, MeshKey
from parley.daemon.outbox.accept import Destination, Message, Sealed
from parley.daemon.sealer import open_sealed, seal
from tests.daemon.test_key_exchange import founder, membership, random

ALICE = replace(founder(), mesh_keys=[MeshKey(1, "aa" * 32)])
BOB = replace(membership("bob"), mesh_keys=[MeshKey(1, "aa" * 32)])
DIRECT = Message("m-1", Destination("mesh_1", "bob", "dm", BOB.pubkey), b"hello", meta={"a": 1}, reply_to_id="bm_0")
SHARED = replace(DIRECT, destination=Destination("mesh_1", "#alerts", "topic", "alerts"))


def carried(message: Message, sealed: Sealed) -> SealedMessage:
    where = message.destination
    return SealedMessage(sealed.sender, where.kind, where.ref, message.reply_to_id or "", sealed.key_epoch, sealed.body)


@pytest.mark.parametrize("message", [DIRECT, SHARED], ids=["direct", "shared"])
def test_text_and_metadata_arrive_and_are_not_seen_on_the_way(message: Message) -> None:
    sealed = seal(message, ALICE, random)
    assert b"hello" not in sealed.body
    opened = open_sealed(carried(message, sealed), BOB, [BOB.seed_bytes])
    assert opened is not None
    assert (opened.body, opened.meta) == ("hello", {"a": 1})
    assert sealed.key_epoch == (None if message is DIRECT else 1)


@pytest.mark.parametrize("message", [DIRECT, SHARED], ids=["direct", "shared"])
@pytest.mark.parametrize("part", ["sender_pubkey", "ref", "reply_to", "sealed"])
def test_what_was_moved_or_changed_does_not_open(message: Message, part: str) -> None:
    whole = carried(message, seal(message, ALICE, random))
    other = whole.sealed[:-1] + b"\0" if part == "sealed" else "0" * 64
    assert open_sealed(whole._replace(**{part: other}), BOB, [BOB.seed_bytes]) is None


PIECES = st.sampled_from(
    ['{"body": ', '"x"', ', "meta": ', '{"a": ', "[", "]", "}", "1", "9" * 30, "9" * 5_000, "1e999", "NaN", '"\\ud800"']
)
DEEP = st.builds(lambda depth, mark: '{"body": "x", "meta": ' + mark * depth, st.integers(0, 3_000), PIECES)
CLOSED = st.builds(
    lambda depth, bit: '{"body": "x", "meta": ' + '{"a": ' * depth + bit + "}" * depth + "}",
    st.integers(0, 120),
    PIECES,
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=20).map("".join).map(str.encode),
    DEEP.map(str.encode),
    CLOSED.map(str.encode),
    st.binary(max_size=200),
    st.just(b'{"body": "' + b"x" * 10_000_000 + b'"}'),
    st.just(b'{"body": "\\u0000", "body": "second", "meta": {"a": 1, "a": 2}}'),
)


@given(TEXTS)
def test_whatever_a_member_seals_is_read_or_not_and_can_be_passed_on(text: bytes) -> None:
    context = Context("mesh_1", "topic", "alerts", ALICE.pubkey)
    body = sealing.seal_shared(text, context, mesh_key=bytes.fromhex("aa" * 32), random=random)
    opened = open_sealed(SealedMessage(ALICE.pubkey, "topic", "alerts", "", 1, body), BOB, [BOB.seed_bytes])
    if opened is not None:
        msgspec.json.encode({"items": [{"meta": opened.meta, "body": opened.body}]})
        canonical_json(opened.meta)


@pytest.mark.parametrize(
    ("meta", "refused"),
    [({"a": "x" * 32_768}, PayloadTooLarge), ({"a": 2**60}, InvalidInput), ({"a": float("nan")}, InvalidInput)],
)
def test_metadata_that_nobody_would_take_is_not_sealed(meta: dict[str, Any], refused: type[Refused]) -> None:
    with pytest.raises(refused):
        seal(replace(DIRECT, meta=meta), ALICE, random)


def test_another_mesh_or_another_epoch_does_not_open() -> None:
    whole = carried(SHARED, seal(SHARED, ALICE, random))
    assert open_sealed(whole, replace(BOB, mesh_id="mesh_2"), [BOB.seed_bytes]) is None
    assert open_sealed(whole._replace(key_epoch=2), BOB, [BOB.seed_bytes]) is None
    assert open_sealed(whole, replace(BOB, mesh_keys=[]), [BOB.seed_bytes]) is None


def test_a_message_to_a_replaced_key_opens_with_the_archived_one(tmp_path: Path) -> None:
    whole = carried(DIRECT, seal(DIRECT, ALICE, random))
    archive = KeyArchive(tmp_path / "archive.json")
    archive.add("mesh_1", BOB.seed_bytes, now_ms=0, grace_days=7)
    rotated = replace(BOB, seed="33" * 32)
    assert open_sealed(whole, rotated, [rotated.seed_bytes]) is None
    assert open_sealed(whole, rotated, [rotated.seed_bytes, *archive.seeds_of("mesh_1", 1)]) is not None
    assert archive.seeds_of("mesh_1", 7 * DAY_MS) == []


def test_what_is_sealed_right_but_says_nothing_that_we_know_is_not_opened() -> None:
    context = sealing.Context("mesh_1", "topic", "alerts", ALICE.pubkey, "bm_0")
    body = sealing.seal_shared(b"not json", context, mesh_key=bytes.fromhex("aa" * 32), random=random)
    assert open_sealed(SealedMessage(ALICE.pubkey, "topic", "alerts", "bm_0", 1, body), BOB, []) is None


def test_without_a_mesh_key_only_direct_messages_can_be_sealed() -> None:
    keyless = replace(ALICE, mesh_keys=[])
    assert seal(DIRECT, keyless, random).key_epoch is None
    with pytest.raises(MeshKeyMissing):
        seal(SHARED, keyless, random)


def test_the_archive_keeps_so_many_and_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "archive.json"
    archive = KeyArchive(path)
    assert archive.load(0) is None
    for number in range(KEYS_MAX + 2):
        archive.add("mesh_1", bytes([number]) * 32, now_ms=number, grace_days=7)
    archive.add("mesh_2", b"\x63" * 32, now_ms=0, grace_days=7)
    again = KeyArchive(path)
    assert again.load(0) is None
    assert again.seeds_of("mesh_1", 1)[0] == bytes([KEYS_MAX + 1]) * 32
    assert len(again.seeds_of("mesh_1", 1)) == KEYS_MAX
    assert path.stat().st_mode & 0o777 == 0o600
    assert again.clean_up(8 * DAY_MS) == KEYS_MAX + 1
    assert again.clean_up(8 * DAY_MS) == 0


@pytest.mark.parametrize("content", [b"{", b'{"schema_version": 2, "max_archived_keys": 8, "keys": []}'])
def test_a_malformed_archive_is_put_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "archive.json"
    path.write_bytes(content)
    aside = KeyArchive(path).load(0)
    assert aside is not None
    assert aside.read_bytes() == content
    assert not path.exists()


def test_memberships_are_kept_closed_to_others_and_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "memberships.json"
    memberships = Memberships(path)
    memberships.load()
    memberships.put(ALICE)
    again = Memberships(path)
    again.load()
    assert again.get("team") == again.get("mesh_1") == ALICE
    assert path.stat().st_mode & 0o777 == 0o600
    again.remove("mesh_1")
    with pytest.raises(MeshNotAttached):
        again.get("team")
