"""Committing to a table: files, removals and cursors in one step of its Delta log.

A cursor is a Delta application transaction: a number under a name, kept in the log itself. Because it moves in the very
commit that adds the files, a run that is killed at any point has either done both or neither.

A commit is a comparison and a swap. It looks at the newest version, checks that what it is based on still holds there,
and asks to become exactly the next version. If somebody else was quicker, it looks again. The log accepts each version
once (a hard link here, a conditional write on an object store), so no lock is needed, and two runs at once can neither
double nor lose anything.
"""

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from parley.core.files import sync_folder
from parley.core.pipeline_errors import LakeConflict, LakeInvalid, LakeNotFound
from parley.pipeline.lake.files import DataFile, Partition
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

TRIES_MAX: Final = 100
"""Each lost try means that somebody else committed; so many in a row mean that something is wrong."""


class Whole:
    """All of a table, where partitions are named."""


WHOLE: Final = Whole()


class Step(NamedTuple):
    """A cursor that a commit moves, if it stands where the caller saw it last."""

    name: str
    expected: int | None
    """None if it had never been set."""
    reached: int


def open_table(lake: Lake, table: Table, version: int | None = None) -> "DeltaTable":
    """The table's log at a version, or at its newest. Raises ``LakeNotFound`` or ``LakeInvalid``."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    path = lake.path(table)
    try:
        return DeltaTable(path, version=version)
    except TableNotFoundError:
        raise LakeNotFound(f"The lake has no table {table.view} yet", table=table.view) from None
    except DeltaError as error:
        if version is not None:
            raise LakeNotFound(f"{table.view} has no version {version}: {error}", table=table.view) from error
        raise LakeInvalid(f"{path} cannot be read as a table: {error}", table=table.view) from error


def exists(lake: Lake, table: Table) -> bool:
    """Whether anything was ever committed to the table."""
    from deltalake import DeltaTable

    return DeltaTable.is_deltatable(lake.path(table))


def ensure_table(lake: Lake, table: Table) -> "DeltaTable":
    """The table, made if it is not there, and given the columns that it lacks.

    A table may have more columns than we know: a newer Parley added them, and they are null in what we write.
    """
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import CommitFailedError, DeltaError

    if not exists(lake, table):
        try:
            DeltaTable.create(
                lake.path(table),
                Schema.from_arrow(table.schema),
                mode="error",
                partition_by=list(table.partition_by),
                name=table.view,
                description=table.meaning,
            )
        except (DeltaError, OSError) as error:
            if not exists(lake, table):  # else somebody else made it at the same moment
                raise _cannot_be_made(lake, table, error) from error
    found = open_table(lake, table)
    known = {field.name: field for field in found.schema().fields}
    wanted = Schema.from_arrow(table.schema).fields
    for field in wanted:
        if field.name in known and known[field.name].type != field.type:
            raise LakeInvalid(
                f"{table.view}.{field.name} is {known[field.name].type} where {field.type} is expected",
                table=table.view,
                column=field.name,
            )
    lacking = [field for field in wanted if field.name not in known]
    if not lacking:
        return found
    with contextlib.suppress(CommitFailedError):  # somebody else committed at the same moment, perhaps just this
        found.alter.add_columns(lacking)
    return ensure_table(lake, table)


def _cannot_be_made(lake: Lake, table: Table, error: Exception) -> LakeInvalid:
    refused = LakeInvalid(f"{table.view} cannot be made in {lake.path(table)}: {error}", table=table.view)
    refused.hint = "Read the reason; see that the lake's folder can be written to."
    return refused


def table_version(lake: Lake, table: Table) -> int:
    """The newest version of the table, which is made if it is not there; the ``base`` of a later commit."""
    return ensure_table(lake, table).version()


def cursor(lake: Lake, table: Table, name: str) -> int | None:
    """Where a cursor of the table stands; None if it was never set, or the table is not there yet."""
    return open_table(lake, table).transaction_version(name) if exists(lake, table) else None


def commit(
    lake: Lake,
    table: Table,
    files: Sequence[DataFile],
    *,
    cursors: Sequence[Step] = (),
    replace: Collection[Partition] | Whole = (),
    base: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> int:
    """Adds the files, takes away what the replaced partitions held, moves the cursors. Returns the new version.

    ``replace`` names partitions, or is ``WHOLE``. With ``base``, the version that the new content was computed from,
    the replaced partitions must still be as they were then. ``about`` is kept in the table's history.

    Raises ``LakeConflict`` if a cursor was moved, or a replaced partition changed, by somebody else. With nothing to
    add, to remove or to move, nothing is committed.
    """

    def gone(found: "DeltaTable") -> dict[str, dict[str, Any]]:
        there = live_files(found, replace)
        if base is not None and there.keys() != live_files(open_table(lake, table, base), replace).keys():
            raise LakeConflict(f"The replaced part of {table.view} changed since version {base}", table=table.view)
        return there

    return _commit(lake, table, files, gone, cursors, about)


def exchange(
    lake: Lake,
    table: Table,
    files: Sequence[DataFile],
    gone: Mapping[str, dict[str, Any]],
    *,
    cursors: Sequence[Step] = (),
    same_content: bool = False,
    about: Mapping[str, Any] | None = None,
) -> int:
    """Puts files in the place of others, which are named as ``live_files`` names them and must all still be there.

    ``same_content`` says that nothing changes for who reads the table's rows.
    """

    def still_there(found: "DeltaTable") -> Mapping[str, dict[str, Any]]:
        if not gone.keys() <= live_files(found, WHOLE).keys():
            raise LakeConflict(f"Files of {table.view} were replaced meanwhile", table=table.view)
        return gone

    return _commit(lake, table, files, still_there, cursors, about, data_change=not same_content)


def _commit(
    lake: Lake,
    table: Table,
    files: Sequence[DataFile],
    gone_of: "Callable[[DeltaTable], Mapping[str, dict[str, Any]]]",
    cursors: Sequence[Step],
    about: Mapping[str, Any] | None,
    *,
    data_change: bool = True,
) -> int:
    for _ in range(TRIES_MAX):
        found = ensure_table(lake, table)
        if files and files[0].path in live_files(found, WHOLE):
            return found.version()  # the last try's answer was lost, the commit was not
        gone = gone_of(found)
        _check_cursors(found, table, cursors)
        actions = [*_adds(files, data_change), *_removes(gone, data_change)]
        if not actions and not cursors:
            return found.version()
        following = found.version() + 1
        if _swap(found, table, actions, cursors, about):
            _sync_log(Path(lake.path(table)) / "_delta_log", following)
            return following
    raise LakeConflict(f"{table.view} changed {TRIES_MAX} times while a commit to it was tried", table=table.view)


def discard(lake: Lake, table: Table, files: Iterable[DataFile]) -> None:
    """Removes files that were written but never committed. One that is part of the table stays."""
    live = live_files(open_table(lake, table), WHOLE) if exists(lake, table) else {}
    for file in files:
        if file.path not in live:
            (Path(lake.path(table)) / file.path).unlink(missing_ok=True)


def live_files(found: "DeltaTable", of: Collection[Partition] | Whole) -> dict[str, dict[str, Any]]:
    """The files that make up the table, or the named partitions of it, by path, with what the log says of each."""
    import pyarrow as pa

    if not isinstance(of, Whole) and not of:
        return {}
    known: list[dict[str, Any]] = pa.table(found.get_add_actions(flatten=False)).to_pylist()
    # What a table without partitions, or files without statistics, lack is left out there.
    lacking: dict[str, Any] = {"partition": {}, "min": {}, "max": {}}
    entries = [lacking | entry for entry in known]
    if isinstance(of, Whole):
        return {entry["path"]: entry for entry in entries}
    wanted = {_key(partition) for partition in of}
    return {entry["path"]: entry for entry in entries if _key(entry["partition"]) in wanted}


def _key(partition: Partition) -> frozenset[tuple[str, str | None]]:
    return frozenset((name, None if value is None else str(value)) for name, value in partition.items())


def _check_cursors(found: "DeltaTable", table: Table, cursors: Sequence[Step]) -> None:
    for step in cursors:
        stands = found.transaction_version(step.name)
        if stands != step.expected:
            raise LakeConflict(
                f"The cursor {step.name} of {table.view} stands at {stands}, not at {step.expected}",
                table=table.view,
                cursor=step.name,
            )


def _adds(files: Sequence[DataFile], data_change: bool) -> "list[AddAction | RemoveAction]":
    from deltalake.transaction import AddAction

    return [
        AddAction(file.path, file.bytes, file.partition, file.modified_ms, data_change, file.statistics)
        for file in files
    ]


def _removes(gone: Mapping[str, Mapping[str, Any]], data_change: bool) -> "list[AddAction | RemoveAction]":
    from deltalake.transaction import RemoveAction

    now_ms = time.time_ns() // 1_000_000
    return [
        RemoveAction(
            path,
            data_change,
            now_ms,
            entry["size_bytes"],
            dict(_key(entry["partition"] or {})),
        )
        for path, entry in gone.items()
    ]


def _swap(
    found: "DeltaTable",
    table: Table,
    actions: "list[AddAction | RemoveAction]",
    cursors: Sequence[Step],
    about: Mapping[str, Any] | None,
) -> bool:
    """Whether this became the version after the one that was found."""
    from deltalake import CommitProperties, Transaction
    from deltalake.exceptions import CommitFailedError

    properties = CommitProperties(
        custom_metadata=dict(about) if about else None,
        max_commit_retries=0,  # a commit that delta-rs moves to a later version would not see what it has to check
        app_transactions=[Transaction(step.name, step.reached) for step in cursors],
    )
    try:
        if actions:
            found.create_write_transaction(
                actions, "append", found.schema(), list(table.partition_by), commit_properties=properties
            )
        elif cursors:
            # A write without files leaves no trace, not even of its cursors; a change of properties does.
            found.alter.set_table_properties(
                {"parley.cursors": str(found.version())}, raise_if_not_exists=False, commit_properties=properties
            )
    except CommitFailedError:
        return False
    return True


def _sync_log(folder: Path, version: int) -> None:
    """delta-rs leaves it to the system when a version reaches the disk; an empty file there would spoil the table."""
    with (folder / f"{version:020d}.json").open("rb") as file:
        os.fsync(file.fileno())
    sync_folder(folder)
