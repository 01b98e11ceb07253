"""Routes for what is sent and what arrives."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import asdict, replace

from parley.core import untrusted_json
from parley.core.canonical import repeated_key
from parley.core.clock import parse_iso
from parley.core.daemon_errors import MetaKeyRepeated
from parley.core.errors import InvalidInput, ParleyError
from parley.core.limits import INBOX_WAIT_SECONDS_MAX, VERSION_MAX
from parley.daemon.capacity import DAY_MS
from parley.daemon.daemon import Asked
from parley.daemon.http.door import session_of
from parley.daemon.http.listing import Listing
from parley.daemon.http.reached import reached
from parley.daemon.http.views import message_view, row_view
from parley.daemon.inbox.reading import Filter, InboxMessage, mark_seen, page, search, unseen_and_sealed
from parley.daemon.inbox.retention import remove
from parley.daemon.outbox.requeue import drop
from parley.daemon.outbox.rows import STATUSES, OutboxRow, chain, find, list_rows
from parley.serve.endpoint import Answer, Call
from parley.serve.params import Query
from parley.wire.daemon_answers import (
    Delivery,
    MarkedSeen,
    OutboxDetail,
    OutboxItem,
    Pruned,
    Removed,
    Requeued,
    SendResult,
)
from parley.wire.daemon_requests import NO_META, Drop, MessageBody, Prune, Requeue, Seen, SendBody, TopicPost

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon

INBOX_LIMIT_DEFAULT, INBOX_LIMIT_MAX = 100, 1_000
OUTBOX_LIMIT_DEFAULT, OUTBOX_LIMIT_MAX = 50, 500


async def post_send(daemon: "Daemon", call: Call) -> Answer:
    body = cast("SendBody", call.body)
    if body.replyToId not in (None, body.reply_to_id) and body.reply_to_id is not None:
        raise InvalidInput("reply_to_id and replyToId differ", field="reply_to_id")
    return await _send(daemon, call, body.to, body, body.reply_to_id or body.replyToId)


async def post_topic(daemon: "Daemon", call: Call) -> Answer:
    body = cast("TopicPost", call.body)
    return await _send(daemon, call, f"#{body.topic}", body, body.reply_to_id)


async def _send(daemon: "Daemon", call: Call, to: str, body: MessageBody, reply_to_id: str | None) -> Answer:
    session = session_of(daemon, call)
    asked = Asked(
        to,
        body.message,
        body.priority,
        _meta(body.meta),
        reply_to_id,
        body.mentions,
        body.mesh or (session.mesh if session else None),
        body.client_message_id,
        body.to_session,
        session,
    )
    taken = await daemon.send(asked, call.key)
    row, slug = taken.row, slug_of(daemon, taken.row.mesh_id)
    if taken.status == 200:
        done = SendResult(
            row.client_message_id,
            row.id,
            slug,
            broker_message_id=row.broker_message_id,
            history_id=row.history_id,
            duplicate=True,
        )
        return Answer(200, done)
    return Answer(202, SendResult(row.client_message_id, row.id, slug, taken.state))


def _meta(given: msgspec.Raw) -> dict[str, Any]:
    """A message's metadata. Raises ``MetaKeyRepeated`` and ``InvalidInput``."""
    if given == NO_META:
        return {}
    try:
        meta = untrusted_json.decode(bytes(given), dict[str, Any])
    except msgspec.DecodeError:
        raise InvalidInput("meta must be a JSON object", field="meta") from None
    repeated = repeated_key(bytes(given))
    if repeated is not None:
        raise MetaKeyRepeated(f"meta has the key {repeated!r} twice", field="meta", key=repeated)
    return meta


async def get_inbox(daemon: "Daemon", call: Call) -> Answer:
    wanted, limit = _filter(daemon, call), _inbox_limit(call.query)
    wait_seconds = call.query.integer("wait_seconds", default=0, low=0, high=INBOX_WAIT_SECONDS_MAX)
    found = await _arrived(daemon, call, wanted, limit, wait_seconds)
    marked = 0
    if call.query.flag("mark_seen", default=True) and found.rows:
        ids, now_ms = [each.id for each in found.rows], daemon.clock.now_ms()
        marked = await daemon.store.write_inbox(lambda db: mark_seen(db, ids, now_ms=now_ms))
        daemon.capacity.note_seen()
    unseen, sealed = daemon.store.read_inbox(unseen_and_sealed)
    counted = {"marked_seen": marked, "unseen": unseen, "undecryptable": sealed}
    return found.answer("/v1/inbox", call.query, _last_seq(found), **counted)


def _messages(daemon: "Daemon", limit: int) -> Listing[InboxMessage]:
    return Listing(limit, lambda each: message_view(each, slug_of(daemon, each.mesh_id)))


def _last_seq(found: Listing[InboxMessage] | Listing[OutboxRow]) -> int | None:
    return found.rows[-1].seq if found.rows else None


async def _arrived(
    daemon: "Daemon", call: Call, wanted: Filter, limit: int, wait_seconds: int
) -> Listing[InboxMessage]:
    """What is there, or as soon as something is; nothing when the time is over, the daemon stops or the caller leaves.

    What comes after the caller has left is not for it: nobody would see what is marked as seen then.
    """

    def read() -> Listing[InboxMessage]:
        listing = _messages(daemon, limit)
        daemon.store.read_inbox(lambda db: page(db, wanted, listing.read_max, listing.take))
        return listing

    found = read()
    if found.rows or not wait_seconds:
        return found
    follower = daemon.feed.follow()
    gone = asyncio.ensure_future(call.gone())
    gone.add_done_callback(lambda _: follower.close())
    try:
        async with asyncio.timeout(wait_seconds):
            while not (found := read()).rows and await follower.wait(wait_seconds):
                follower.caught_up()
    except TimeoutError:
        pass
    finally:
        daemon.feed.leave(follower)
        has_gone = not gone.cancel()
    return _messages(daemon, limit) if has_gone else found


async def search_inbox(daemon: "Daemon", call: Call) -> Answer:
    query = call.query.get("q", "")
    if not query:
        raise InvalidInput("q must be given", field="q")
    wanted = _filter(daemon, call)
    found = _messages(daemon, _inbox_limit(call.query))
    daemon.store.read_inbox(lambda db: search(db, query, wanted, found.read_max, found.take))
    return found.answer("/v1/inbox/search", call.query, _last_seq(found))


async def post_seen(daemon: "Daemon", call: Call) -> Answer:
    ids, now_ms = cast("Seen", call.body).ids, daemon.clock.now_ms()
    marked = await daemon.store.write_inbox(lambda db: mark_seen(db, ids, now_ms=now_ms))
    daemon.capacity.note_seen()
    return Answer(200, MarkedSeen(marked))


async def delete_inbox(daemon: "Daemon", call: Call) -> Answer:
    mesh = call.query.get("mesh")
    mesh_id = None if mesh is None else daemon.memberships.get(mesh).mesh_id
    before = _time(call, "before")
    if mesh_id is None and before is None and not call.query.flag("all", default=False):
        raise InvalidInput("Name a mesh or a time, or say all=true", field="all")
    return Answer(200, Removed(await daemon.capacity.flush_inbox(mesh_id=mesh_id, before_ms=before)))


async def delete_message(daemon: "Daemon", call: Call) -> Answer:
    row_id = call.path["id"]
    await daemon.store.write_inbox(lambda db: remove(db, row_id))
    return Answer(200, Removed(1, row_id))


async def get_outbox(daemon: "Daemon", call: Call) -> Answer:
    asked = call.query.choice("status", STATUSES) if call.query.text("status") else None
    mesh = call.query.get("mesh")
    mesh_id = None if mesh is None else daemon.memberships.get(mesh).mesh_id
    limit = call.query.integer("limit", default=OUTBOX_LIMIT_DEFAULT, low=1, high=OUTBOX_LIMIT_MAX)
    before = _before(call)
    rows = daemon.store.read_outbox(
        lambda db: list_rows(db, status=asked, mesh_id=mesh_id, limit=limit + 1, before_seq=before)
    )
    known = await reached(daemon, rows[:limit]) if call.query.flag("reached", default=False) else None

    def view(row: OutboxRow) -> OutboxItem:
        shown = row_view(row, slug_of(daemon, row.mesh_id))
        return shown if known is None else replace(shown, reached=known.get(row.client_message_id))

    found = Listing(limit, view)
    all(map(found.take, rows))
    return found.answer("/v1/outbox", call.query, _last_seq(found))


async def get_row(daemon: "Daemon", call: Call) -> Answer:
    name = call.path["id"]
    row = daemon.store.read_outbox(lambda db: find(db, name))
    links = daemon.store.read_outbox(lambda db: chain(db, row))
    shown = row_view(row, slug_of(daemon, row.mesh_id))
    message = None if row.pruned_at is not None else row.payload.decode("utf-8", "replace")
    deliveries = await _deliveries(daemon, row)
    detail = OutboxDetail(
        **asdict(shown),
        message=message,
        deliveries=deliveries,
        chain=[row_view(each, slug_of(daemon, each.mesh_id)) for each in links],
    )
    return Answer(200, detail)


async def _deliveries(daemon: "Daemon", row: OutboxRow) -> list[Delivery] | None:
    """What became of the message at its recipients; None where the broker does not have it, or cannot be asked."""
    mesh = daemon.meshes.get(row.mesh_id)
    if row.status != "done" or mesh is None or not mesh.runner.machine.ready:
        return None
    try:
        answer = await mesh.runner.ask("message_status", {"client_message_id": row.client_message_id})
        return msgspec.convert(answer["deliveries"], list[Delivery])
    except (ParleyError, KeyError, msgspec.ValidationError):
        return None


async def post_requeue(daemon: "Daemon", call: Call) -> Answer:
    body = cast("Requeue", call.body)
    old, new = await daemon.requeue(
        body.id,
        new_client_id=body.new_client_message_id,
        patched=body.message,
        force=body.force,
        by=body.aborted_by,
    )
    return Answer(200, Requeued(old.id, new.id, new.client_message_id))


async def post_drop(daemon: "Daemon", call: Call) -> Answer:
    body, now_ms = cast("Drop", call.body), daemon.clock.now_ms()
    row = daemon.store.read_outbox(lambda db: find(db, body.id))
    dropped = await daemon.store.write_outbox(
        lambda db: drop(db, row.id, by=body.aborted_by, force=body.force, now_ms=now_ms)
    )
    return Answer(200, row_view(dropped, slug_of(daemon, row.mesh_id)))


async def post_prune(daemon: "Daemon", call: Call) -> Answer:
    before = daemon.clock.now_ms() - round(cast("Prune", call.body).older_than_days * DAY_MS)
    return Answer(200, Pruned(await daemon.capacity.prune_outbox(before)))


def slug_of(daemon: "Daemon", mesh_id: str) -> str:
    """The mesh's short name; its id when the user has left it since."""
    mesh = daemon.meshes.get(mesh_id)
    return mesh_id if mesh is None else mesh.slug


def _filter(daemon: "Daemon", call: Call) -> Filter:
    session = session_of(daemon, call)
    mesh = call.query.get("mesh") or (session.mesh if session else None)
    return Filter(
        None if mesh is None else daemon.memberships.get(mesh).mesh_id,
        _time(call, "since"),
        call.query.get("topic"),
        call.query.get("from"),
        call.query.flag("unread_only", default=False),
        _before(call),
        None if session is None else session.session_id,
    )


def _before(call: Call) -> int | None:
    """The cursor of the page before."""
    return call.query.integer("before", default=None, low=0, high=VERSION_MAX)


def _time(call: Call, name: str) -> int | None:
    text = call.query.get(name)
    if text is None:
        return None
    try:
        return parse_iso(text)
    except ValueError as error:
        raise InvalidInput(f"{name} must be an ISO 8601 time", field=name) from error


def _inbox_limit(query: Query) -> int:
    """How many messages a page holds at most."""
    return query.integer("limit", default=INBOX_LIMIT_DEFAULT, low=1, high=INBOX_LIMIT_MAX)
