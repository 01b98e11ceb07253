"""Who may open a store, what becomes of one that cannot go on, and how it ends."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from parley.bus import MeshStore
from parley.bus.sqlite_store import SqliteMeshStore
from parley.bus.store_file import MIGRATIONS, StoreIdentity, as_bus_error
from parley.core.bus_errors import (
    BusError,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreForeign,
    StoreInputInvalid,
    StoreLocked,
    StoreLost,
    StoreMigrationFailed,
    StoreTooNew,
    StoreUnavailable,
    StoreUnusable,
)
from parley.core.clock import ManualClock
from parley.core.errors import ERRORS, InternalError
from parley.sqlite import Migration, close_quietly, migrate, open_writer
from parley.sqlite.checked import record_version, user_version
from tests.conformance.bus_store.makers import (
    ME,
    NOW,
    SOMEBODY_ELSE,
    accepted,
    admit,
    due,
    enqueued,
    item,
    known,
    message_id,
    nonce,
    open_store,
    peer,
)
from tests.faults.vfs import Failure, FaultVFS

Call = Callable[[MeshStore], Awaitable[object]]
CALLS: dict[str, Call] = {
    "admit": lambda store: store.admit(peer(1), nonce(1), 1, message_id(1), b"", now=NOW),
    "last_seq": lambda store: store.last_seq(peer(1)),
    "nonce_seen": lambda store: store.nonce_seen(nonce(1)),
    "undispatched": lambda store: store.undispatched(limit=1),
    "start_dispatch": lambda store: store.start_dispatch(1),
    "dispatched": lambda store: store.dispatched(1),
    "unwedge_undispatched": lambda store: store.unwedge_undispatched(1),
    "next_out_seq": lambda store: store.next_out_seq(),
    "raise_out_seq": lambda store: store.raise_out_seq(1),
    "enqueue_outbox": lambda store: store.enqueue_outbox(item(1), now=NOW),
    "due_outbox": lambda store: store.due_outbox(now=NOW, limit=1),
    "next_due_at": lambda store: store.next_due_at(now=NOW),
    "list_outbox": lambda store: store.list_outbox(limit=1),
    "remove_outbox": lambda store: store.remove_outbox(1),
    "reschedule_outbox": lambda store: store.reschedule_outbox(1, now=NOW, not_before=NOW, error=""),
    "hasten_outbox": lambda store: store.hasten_outbox(peer(1), now=NOW),
    "wedge_outbox": lambda store: store.wedge_outbox(1, reason=""),
    "unwedge_outbox": lambda store: store.unwedge_outbox(1, now=NOW),
    "expire_outbox": lambda store: store.expire_outbox(now=NOW),
    "expired_outbox": lambda store: store.expired_outbox(limit=1),
    "remember_peer": lambda store: store.remember_peer(known(1)),
    "known_peers": lambda store: store.known_peers(since=NOW),
}
OTHER = """
import asyncio, sys
from pathlib import Path
from parley.core.bus_errors import StoreLocked
from tests.conformance.bus_store.makers import open_store

async def main():
    try:
        store = open_store(Path(sys.argv[1]))
    except StoreLocked as locked:
        print("locked by", locked.details["pid"])
    else:
        print(await store.next_out_seq())
        await store.close()

asyncio.run(main())
"""
WITHOUT_A_FILE = """
import asyncio, sys
from parley.bus import MemoryMeshStore, NewOutboxItem
touched = []

async def main():
    sys.addaudithook(lambda event, arguments: event in ("open", "os.mkdir", "os.rename") and touched.append(arguments))
    store = MemoryMeshStore()
    await store.admit(b"p" * 32, b"n" * 24, 1, b"m" * 16, b"hello", now=1)
    await store.enqueue_outbox(NewOutboxItem(b"p" * 32, b"m" * 16, b"hello", b"d" * 32, 2), now=1)
    await store.expire_outbox(now=2)
    print(await store.next_out_seq(), touched, "apsw" in sys.modules, "parley.sqlite" in sys.modules)
    await store.close()

asyncio.run(main())
"""


def run(program: str, *arguments: object) -> str:
    argv = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


def content(path: Path) -> bytes:
    return path.read_bytes()


def open_to_all(path: Path) -> None:
    path.chmod(0o644)


def spoil(path: Path, damage: str) -> None:
    whole = path.read_bytes()
    spoilt = {
        "no database": b"no database at all " * 500,
        "half of it": whole[: len(whole) // 2],
        "a page": whole[:4096] + b"\xff" * 4096 + whole[8192:],
    }
    path.write_bytes(spoilt[damage])


def obstructed(path: Path, obstacle: str) -> Path:
    if obstacle == "no folder":
        path = path / "deeper" / "bus.db"
    elif obstacle == "a folder":
        path.mkdir()
    elif obstacle == "a pipe":
        os.mkfifo(path)
    elif obstacle == "a folder as its log":
        path.with_name("bus.db-wal").mkdir()
    else:
        path.symlink_to(path)
    return path


def files_in(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}


def test_every_method_of_the_protocol_is_called_here() -> None:
    methods = {name for name, member in vars(MeshStore).items() if callable(member) and not name.startswith("_")}
    assert set(CALLS) == methods - {"close"}


@pytest.mark.parametrize("name", CALLS)
async def test_case_46_a_closed_store_refuses_every_call(store: MeshStore, name: str) -> None:
    await CALLS[name](store)  # on an open one it can be made
    await store.next_out_seq()
    await store.close()
    with pytest.raises(StoreClosed):
        await CALLS[name](store)


async def test_case_47_to_close_again_does_nothing(store: MeshStore) -> None:
    await asyncio.gather(store.close(), store.close())
    await store.close()


async def test_case_47_what_was_asked_for_before_the_close_is_finished(durable: MeshStore, path: Path) -> None:
    admissions = [asyncio.ensure_future(admit(durable, number)) for number in range(1, 20)]
    await asyncio.sleep(0)
    await durable.close()
    assert {each.verdict for each in await asyncio.gather(*admissions)} == {"accepted"}
    again = open_store(path)
    assert await again.last_seq(peer(1)) == 19
    await again.close()


def test_case_48_the_memory_store_makes_no_file() -> None:
    assert run(WITHOUT_A_FILE) == "1 [] False False"


async def test_case_49_the_file_and_those_beside_it_are_its_owners_alone(path: Path) -> None:
    umask = os.umask(0)
    try:
        store = open_store(path)
        await accepted(store, 1)
        assert files_in(path.parent) == dict.fromkeys(("bus.db", "bus.db-wal", "bus.db-shm", "bus.db.lock"), 0o600)
        await store.close()
        open_to_all(path)
        store = open_store(path)
        await accepted(store, 2)
        assert set(files_in(path.parent).values()) == {0o600}
        await store.close()
    finally:
        os.umask(umask)


async def test_case_50_a_second_opener_is_told_who_has_the_store(durable: MeshStore, path: Path) -> None:
    await durable.next_out_seq()
    assert run(OTHER, path) == f"locked by {os.getpid()}"
    with pytest.raises(StoreLocked) as refusal:
        open_store(path)
    assert refusal.value.details["pid"] == os.getpid()
    link = path.with_name("by-another-name.db")
    link.symlink_to(path)
    with pytest.raises(StoreLocked):
        open_store(link)
    await accepted(durable, 1)
    await durable.close()
    assert int(run(OTHER, path)) > 1


async def test_case_50_a_store_whose_lock_file_was_removed_is_locked_all_the_same(path: Path) -> None:
    store = open_store(path)
    (path.parent / "bus.db.lock").unlink()
    with pytest.raises(StoreLocked):
        open_store(path)
    with pytest.raises(StoreLost):
        await accepted(store, 1)
    await store.close()


@pytest.mark.parametrize("other", [SOMEBODY_ELSE, StoreIdentity(ME.agent, b"v" * 32)], ids=["agent", "user"])
async def test_case_51_the_store_of_another_identity_is_refused(path: Path, other: StoreIdentity) -> None:
    store = open_store(path)
    await store.next_out_seq()
    await store.close()
    before = content(path)
    with pytest.raises(StoreForeign) as refusal:
        open_store(path, identity=other)
    assert refusal.value.details["agent"] == ME.agent.hex()[:12]
    assert content(path) == before
    await open_store(path).close()


def test_a_store_is_opened_by_no_one_but_a_running_loop(path: Path) -> None:
    with pytest.raises(RuntimeError):
        open_store(path)
    assert not path.exists()


async def test_case_51_an_identity_that_is_no_pair_of_fingerprints_is_refused(path: Path) -> None:
    with pytest.raises(StoreInputInvalid):
        open_store(path, identity=StoreIdentity(b"", b"u" * 32))
    assert files_in(path.parent) == {}


async def test_case_52_a_store_of_a_newer_schema_is_refused_unchanged(path: Path) -> None:
    await open_store(path).close()
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    connection.close()
    before = content(path)
    with pytest.raises(StoreTooNew):
        open_store(path)
    assert content(path) == before


@pytest.mark.parametrize("version", range(len(MIGRATIONS) + 1))
async def test_case_53_a_store_of_every_schema_is_brought_to_the_newest(path: Path, version: int) -> None:
    connection = open_writer(path)
    migrate(connection, MIGRATIONS, read_version=user_version, write_version=record_version, target=version)
    close_quietly(connection)
    store = open_store(path)
    await accepted(store, 1)
    assert await store.next_out_seq() == 1
    assert await enqueued(store, 1) == 1
    await store.close()
    connection = apsw.Connection(str(path))
    assert user_version(connection) == len(MIGRATIONS)
    connection.close()


async def test_case_53_a_migration_that_fails_leaves_the_store_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_store(path).close()
    before = content(path)
    broken = (*MIGRATIONS, Migration(len(MIGRATIONS) + 1, "broken", "DROP TABLE nothing"))
    with monkeypatch.context() as patched:
        patched.setattr("parley.bus.store_file.MIGRATIONS", broken)
        with pytest.raises(StoreMigrationFailed):
            open_store(path)
    await open_store(path).close()
    assert content(path)[100:] == before[100:]  # the header alone counts that it was opened


@pytest.mark.parametrize("damage", ["no database", "half of it", "a page"])
async def test_case_54_a_damaged_store_is_refused(path: Path, damage: str) -> None:
    store = open_store(path)
    await enqueued(store, 1, payload=bytes(100_000))
    await store.close()
    spoil(path, damage)
    before = content(path)
    with pytest.raises(StoreDamaged):
        open_store(path)
    assert content(path) == before


@pytest.mark.parametrize("version", [0, 1, 7])
async def test_case_54_the_database_of_something_else_is_refused_unchanged(path: Path, version: int) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(f"CREATE TABLE outbox (id); PRAGMA user_version={version}")
    connection.close()
    before = content(path)
    with pytest.raises(StoreUnusable, match="another database"):
        open_store(path)
    assert content(path) == before


@pytest.mark.parametrize("obstacle", ["no folder", "a folder", "a pipe", "a folder as its log", "a loop of links"])
async def test_case_54_what_cannot_be_a_store_is_refused(path: Path, obstacle: str) -> None:
    path = obstructed(path, obstacle)
    with pytest.raises(StoreUnusable):
        open_store(path)


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
async def test_case_55_on_a_full_or_failing_disk_the_state_stays_whole(path: Path, error: type[apsw.Error]) -> None:
    vfs = FaultVFS()
    store = open_store(path, vfs=vfs.name)
    inbox_id = await accepted(store, 1)
    outbox_id = await enqueued(store, 1)
    before = await store.undispatched(limit=10), await store.list_outbox(limit=10)
    for call in (lambda: admit(store, 2), lambda: enqueued(store, 2), lambda: store.remove_outbox(outbox_id)):
        vfs.disk.failure = Failure(vfs.disk.operations + 1, error, for_good=True)
        with pytest.raises(StoreUnavailable) as refusal:
            await call()
        assert refusal.value.transient
        vfs.disk.failure = None
        assert (await store.undispatched(limit=10), await store.list_outbox(limit=10)) == before
        assert not await store.nonce_seen(nonce(2))
    await accepted(store, 2)
    assert await store.dispatched(inbox_id)
    await store.close()
    again = open_store(path)
    assert await again.last_seq(peer(1)) == 2
    assert await due(again) == [outbox_id]
    await again.close()


async def test_case_54_a_store_that_is_found_damaged_while_it_is_open_answers_for_nothing_any_more(path: Path) -> None:
    vfs = FaultVFS()
    store = open_store(path, vfs=vfs.name)
    await store.next_out_seq()
    vfs.disk.failure = Failure(vfs.disk.operations + 1, apsw.CorruptError)
    with pytest.raises(StoreDamaged):
        await accepted(store, 1)
    for call in (lambda: admit(store, 1), store.next_out_seq, lambda: store.list_outbox(limit=1)):
        with pytest.raises(StoreDamaged):
            await call()
    await store.close()


@pytest.mark.parametrize("gone", ["bus.db", "bus.db-wal", "bus.db.lock"])
async def test_files_that_are_removed_are_missed_before_anything_is_acknowledged(path: Path, gone: str) -> None:
    store = open_store(path)
    await store.next_out_seq()
    (path.parent / gone).unlink()
    for call in (lambda: admit(store, 1), lambda: enqueued(store, 1), store.next_out_seq):
        with pytest.raises(StoreLost) as refusal:
            await call()
        assert refusal.value.details["reason"] == "removed"
        assert refusal.value.details["path"] == str(path.parent / gone)
    await store.close()


async def test_a_file_that_another_took_the_place_of_is_missed(path: Path) -> None:
    store = open_store(path)
    await accepted(store, 1)
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)
    with pytest.raises(StoreLost) as refusal:
        await accepted(store, 2)
    assert refusal.value.details["reason"] == "replaced"
    await store.close()


def test_case_56_every_error_of_the_store_is_one_of_the_bus() -> None:
    kinds = [kind for code, kind in ERRORS.items() if code.startswith("BUS_") and issubclass(kind, StoreError)]
    assert len(kinds) == 14
    assert all(issubclass(kind, BusError) and not kind.on_wire for kind in kinds)


async def test_case_56_so_is_a_fault_of_ours(durable: SqliteMeshStore) -> None:
    with pytest.raises(StoreFailed):
        await durable._run(lambda db: db.execute("INSERT INTO counter VALUES (1, 1)"))  # pyright: ignore[reportPrivateUsage]
    await accepted(durable, 1)
    assert isinstance(as_bus_error(InternalError("bug", detail=1)), StoreFailed)
    assert as_bus_error(InternalError("bug", detail=1)).details == {"detail": 1}


async def test_a_store_that_is_closed_is_one_file_without_what_was_deleted(path: Path) -> None:
    secret = b"what was said and is no more" * 50
    store = open_store(path, clock=ManualClock())
    await store.remove_outbox(await enqueued(store, 1, payload=secret))
    await store.dispatched(await accepted(store, 1, payload=secret))
    await store.close()
    assert files_in(path.parent) == {"bus.db": 0o600, "bus.db.lock": 0o600}
    assert secret[:20] not in content(path)
