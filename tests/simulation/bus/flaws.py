"""Bugs to plant in the bus: each breaks one rule, and must be caught for the reason that is its own."""

import contextlib
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from parley.bus import chain, envelope, inbox_rows, outbox_rows, sqlite_store
from parley.bus.dispatch import Dispatcher
from parley.bus.mesh_store import Admission
from parley.bus.outbox_rows import Block
from parley.bus.sqlite_store import SqliteMethods
from tests.simulation.bus.agent_node import SimulatedStore

Flaw = Callable[[pytest.MonkeyPatch], None]


def the_store_answers_before_it_commits(patch: pytest.MonkeyPatch) -> None:
    async def run(self: SimulatedStore, write: Callable[[apsw.Connection], Any], *, later: bool = False) -> Any:
        if self.is_over():
            return await self.submit(write)
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN")
        answer = write(self.connection)
        self.submit(lambda _: None, later=later)
        return answer

    def commit(self: SimulatedStore) -> None:
        if not self.is_over() and self.connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                self.connection.execute("COMMIT")
        settle(self)

    settle = SimulatedStore.commit
    patch.setattr(SimulatedStore, "_run", run)
    patch.setattr(SimulatedStore, "commit", commit)


def a_commit_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedStore, "synchronous", "OFF")


def the_mark_of_a_peer_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inbox_rows, "_PUT_MARK", inbox_rows._PUT_MARK.replace("VALUES (?, ?)", "VALUES (?1, 0 * ?2)"))


def message_ids_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inbox_rows, "_PUT_MESSAGE_ID", "SELECT ?, ?, ?")


def the_counter_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    """It begins anew with each life."""

    def reserve(db: apsw.Connection, floor: int = 0) -> Block:
        first = max(1, floor)
        return Block(first, first + 1024)

    patch.setattr(outbox_rows, "reserve", reserve)


def a_call_of_a_handler_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inbox_rows, "_PUT", inbox_rows._PUT.replace("?, ?)", "?, 0 * ?)"))


def a_message_is_removed_before_its_handler_returns(patch: pytest.MonkeyPatch) -> None:
    admit = inbox_rows.admit

    def admit_and_remove(db: apsw.Connection, *args: Any, **more: Any) -> Admission:
        admission = admit(db, *args, **more)
        if admission.inbox_id is not None and more["dispatching"]:
            inbox_rows.dispatched(db, admission.inbox_id)
        return admission

    patch.setattr(inbox_rows, "admit", admit_and_remove)


def the_inbox_is_not_taken_up_at_the_start(patch: pytest.MonkeyPatch) -> None:
    async def load(self: Dispatcher) -> None:
        """Forgets it."""

    patch.setattr(Dispatcher, "load", load)


def the_outbox_is_emptied_before_the_peer_has_it(patch: pytest.MonkeyPatch) -> None:
    due = SqliteMethods.due_outbox

    async def due_and_gone(self: SqliteMethods, **more: Any) -> Any:
        found = await due(self, **more)
        for item in found if more["limit"] == 1 and more.get("now") else ():
            await self.remove_outbox(item.id)
        return found

    patch.setattr(sqlite_store.SqliteMethods, "due_outbox", due_and_gone)


def what_expires_is_told_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outbox_rows, "_NOTE", "SELECT ?, ?, ?, ?, ?, ?, ?")


def what_is_new_overtakes_the_outbox(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outbox_rows, "_DUE", outbox_rows._DUE.replace("ORDER BY id", "ORDER BY id DESC"))


def a_revocation_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(chain, "_check_revoked", lambda *_: None)


def an_envelope_may_be_anybodys(patch: pytest.MonkeyPatch) -> None:
    """For whom it is, and who sends it on which connection."""
    opens = envelope.open_envelope

    def open_any(found: Any, **more: Any) -> Any:
        return opens(found, **{**more, "recipient": found.head.recipient})

    patch.setattr("parley.bus.trust.open_envelope", open_any)


FLAWS: dict[Flaw, str] = {
    the_store_answers_before_it_commits: r"was delivered and nobody handled it|was spooled, and is neither",
    a_commit_is_not_synced: r"takes sequence \d+ after \d+|was delivered and nobody handled it",
    the_mark_of_a_peer_is_not_kept: r"takes sequence \d+ after \d+",
    message_ids_are_not_kept: r"again and it is not marked|again in the same life",
    the_counter_is_not_kept: r"uses sequence \d+ twice",
    a_call_of_a_handler_is_not_counted: r"again and it is not marked",
    a_message_is_removed_before_its_handler_returns: r"and nobody handled it",
    the_inbox_is_not_taken_up_at_the_start: r"never came to rest: .* in its inbox",
    the_outbox_is_emptied_before_the_peer_has_it: r"was spooled, and is neither handled nor told of",
    what_expires_is_told_nobody: r"was spooled, and is neither handled nor told of",
    what_is_new_overtakes_the_outbox: r"overtakes others in the outbox",
    a_revocation_is_not_looked_at: r"who is revoked there",
    an_envelope_may_be_anybodys: r"which nobody sent it so",
}
"""Each with what it is found by."""
