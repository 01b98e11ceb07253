"""The store that forgets: what a bus remembers for as long as it runs. It touches no file and loads no SQLite.

A restart begins with an empty memory and a counter at 1, so a bus on it must begin with a new agent key as well: peers
refuse old sequences of a key that they know, and a captured envelope of an old run would be accepted again.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Sequence

from parley.bus import admission
from parley.bus.admission import Facts, check_id, check_length, check_page, check_time, judge, said
from parley.bus.box import Box
from parley.bus.chain import CallLimit
from parley.bus.mesh_store import (
    Admission,
    ExpiredItem,
    KnownPeer,
    NewOutboxItem,
    OutboxItem,
    StoreBounds,
    Undispatched,
)
from parley.core.bus_errors import MessageIdReused, StoreClosed
from parley.core.limits import (
    BUS_DISPATCHES_MAX,
    BUS_EXPIRED_KEPT,
    BUS_MEMORY_MESSAGE_IDS_MAX,
    BUS_NONCES_KEPT,
    BUS_PEERS_KEPT,
)


class MemoryMeshStore:
    """A ``MeshStore`` in memory. None of its methods waits for anything, so each is one step of the event loop."""

    durable = False

    def __init__(self, bounds: StoreBounds | None = None) -> None:
        self._bounds = bounds or StoreBounds()
        self._closed = False
        self._nonces: OrderedDict[bytes, None] = OrderedDict()
        self._marks: dict[bytes, int] = {}
        self._message_ids: dict[bytes, OrderedDict[bytes, int]] = {}
        self._calls: Counter[bytes] = Counter()
        self._inbox = Box[Undispatched]()
        self._outbox = Box[OutboxItem]()
        self._outbox_ids: dict[bytes, int] = {}
        self._expired: deque[ExpiredItem] = deque(maxlen=BUS_EXPIRED_KEPT)
        self._upcoming = 1
        self._peers: dict[bytes, KnownPeer] = {}

    async def admit(
        self,
        peer: bytes,
        nonce: bytes,
        sequence: int,
        message_id: bytes,
        payload: bytes,
        *,
        now: int,
        call_limits: Sequence[CallLimit] = (),
        dispatching: bool = False,
        kept: bool = True,
    ) -> Admission:
        self._begin()
        admission.check_arrival(peer, nonce, sequence, message_id, payload, call_limits)
        check_time("now", now)
        facts = self._facts(peer, nonce, message_id, call_limits)
        size = len(payload) if kept else None
        verdict = judge(facts, sequence, size, call_limits, self._bounds.inbox, now)
        if verdict in ("accepted", "duplicate", "bad_sequence"):
            self._remember_nonce(nonce)
        if verdict == "bad_sequence":
            return Admission(verdict, expected=facts.mark + 1)
        if verdict in ("accepted", "duplicate"):
            self._marks[peer] = sequence
        if verdict != "accepted":
            return Admission(verdict)
        self._remember_message(peer, message_id, now)
        self._calls.update(limit.certificate for limit in call_limits)
        if not kept:
            return Admission(verdict)
        inbox_id = self._inbox.new_id()
        message = Undispatched(inbox_id, peer, message_id, bytes(payload), now, int(dispatching), False)
        self._inbox.put(message)
        return Admission(verdict, inbox_id)

    async def last_seq(self, peer: bytes) -> int | None:
        self._begin()
        check_length("peer", peer, admission.FINGERPRINT_BYTES)
        return self._marks.get(peer)

    async def nonce_seen(self, nonce: bytes) -> bool:
        self._begin()
        check_length("nonce", nonce, admission.NONCE_BYTES)
        return nonce in self._nonces

    async def undispatched(self, *, after: int = 0, limit: int) -> list[Undispatched]:
        self._begin()
        check_page(after, limit)
        return self._inbox.page(after, limit)

    async def start_dispatch(self, inbox_id: int) -> Undispatched | None:
        self._begin()
        check_id("inbox_id", inbox_id)
        message = self._inbox.get(inbox_id)
        if message is None or message.wedged:
            return message
        if message.dispatches >= BUS_DISPATCHES_MAX:
            return self._inbox.change(message._replace(wedged=True))
        return self._inbox.change(message._replace(dispatches=message.dispatches + 1))

    async def dispatched(self, inbox_id: int) -> bool:
        self._begin()
        check_id("inbox_id", inbox_id)
        return self._inbox.take(inbox_id) is not None

    async def unwedge_undispatched(self, inbox_id: int) -> bool:
        self._begin()
        check_id("inbox_id", inbox_id)
        message = self._inbox.get(inbox_id)
        if message is None or not message.wedged:
            return False
        self._inbox.change(message._replace(wedged=False, dispatches=0))
        return True

    async def next_out_seq(self) -> int:
        self._begin()
        admission.check_end(self._upcoming)
        sequence, self._upcoming = self._upcoming, self._upcoming + 1
        return sequence

    async def raise_out_seq(self, floor: int) -> bool:
        self._begin()
        if floor <= self._upcoming:
            return False
        admission.check_jump(floor, self._upcoming)
        self._upcoming = floor
        return True

    async def enqueue_outbox(self, item: NewOutboxItem, *, now: int) -> int:
        self._begin()
        admission.check_item(item, now)
        known = self._outbox.get(self._outbox_ids.get(item.message_id, 0))
        if known is not None:
            if (known.peer, known.digest) != (item.peer, item.digest):
                raise MessageIdReused("The outbox holds another message under this id", outbox_id=known.id)
            return known.id
        admission.check_room(self._bounds.outbox, self._outbox.held(item.peer), len(item.payload))
        outbox_id = self._outbox.new_id()
        not_before = min(item.not_before, admission.latest_wait(now))
        self._outbox.put(
            OutboxItem(
                outbox_id,
                item.peer,
                item.message_id,
                bytes(item.payload),
                item.digest,
                attempts=0,
                created_at=now,
                not_before=not_before,
                expires_at=item.expires_at,
                wedged=None,
                last_error=None,
            )
        )
        self._outbox_ids[item.message_id] = outbox_id
        return outbox_id

    async def due_outbox(self, *, now: int, limit: int, peer: bytes | None = None) -> list[OutboxItem]:
        self._begin()
        check_page(0, limit)
        if peer is not None:
            check_length("peer", peer, admission.FINGERPRINT_BYTES)
        self._draw_nearer(now)
        waiting: set[bytes] = set()
        due: list[OutboxItem] = []
        for item in self._live(now):
            if item.not_before > now:
                waiting.add(item.peer)
            elif item.peer not in waiting and peer in (None, item.peer):
                due.append(item)
        return due[:limit]

    async def next_due_at(self, *, now: int) -> int | None:
        self._begin()
        self._draw_nearer(now)
        heads: dict[bytes, int] = {}
        for item in self._live(now):
            heads.setdefault(item.peer, item.not_before)
        return min((*heads.values(), *(item.expires_at for item in self._outbox)), default=None)

    async def list_outbox(self, *, after: int = 0, limit: int) -> list[OutboxItem]:
        self._begin()
        check_page(after, limit)
        return self._outbox.page(after, limit)

    async def remove_outbox(self, outbox_id: int) -> bool:
        self._begin()
        return self._remove(self._item(outbox_id))

    async def reschedule_outbox(self, outbox_id: int, *, now: int, not_before: int, error: str) -> bool:
        self._begin()
        check_time("now", now)
        check_time("not_before", not_before)
        item = self._item(outbox_id)
        if item is None:
            return False
        until = min(not_before, admission.latest_wait(now))
        self._outbox.change(item._replace(attempts=item.attempts + 1, not_before=until, last_error=said(error)))
        return True

    async def hasten_outbox(self, peer: bytes, *, now: int) -> bool:
        self._begin()
        check_length("peer", peer, admission.FINGERPRINT_BYTES)
        check_time("now", now)
        waiting = [item for item in self._outbox if item.peer == peer and item.not_before > now]
        for item in waiting:
            self._outbox.change(item._replace(not_before=now))
        return bool(waiting)

    async def wedge_outbox(self, outbox_id: int, *, reason: str) -> bool:
        self._begin()
        item = self._item(outbox_id)
        if item is None or item.wedged is not None:
            return False
        self._outbox.change(item._replace(wedged=said(reason), attempts=item.attempts + 1))
        return True

    async def unwedge_outbox(self, outbox_id: int, *, now: int) -> bool:
        self._begin()
        check_time("now", now)
        item = self._item(outbox_id)
        if item is None or item.wedged is None:
            return False
        self._outbox.change(item._replace(wedged=None, not_before=now))
        return True

    async def expire_outbox(self, *, now: int) -> list[OutboxItem]:
        self._begin()
        self._draw_nearer(now)
        expired = [item for item in self._outbox if item.expires_at <= now]
        for item in expired:
            self._remove(item)
            self._expired.append(admission.note_of(item, now))
        return expired

    async def expired_outbox(self, *, limit: int) -> list[ExpiredItem]:
        self._begin()
        check_page(0, limit)
        return list(reversed(self._expired))[:limit]

    async def remember_peer(self, peer: KnownPeer) -> None:
        self._begin()
        admission.check_peer(peer)
        self._peers[peer.fingerprint] = peer
        if len(self._peers) > BUS_PEERS_KEPT:
            del self._peers[self._by_last_seen()[-1].fingerprint]

    async def known_peers(self, *, since: int) -> list[KnownPeer]:
        self._begin()
        check_time("since", since)
        return [peer for peer in self._by_last_seen() if peer.seen_at >= since]

    async def close(self) -> None:
        self._closed = True

    def _begin(self) -> None:
        if self._closed:
            raise StoreClosed("The store is closed")

    def _facts(self, peer: bytes, nonce: bytes, message_id: bytes, call_limits: Sequence[CallLimit]) -> Facts:
        return Facts(
            nonce_is_known=nonce in self._nonces,
            mark=self._marks.get(peer, 0),
            seen_at=self._message_ids[peer].get(message_id) if peer in self._message_ids else None,
            calls=[self._calls[limit.certificate] for limit in call_limits],
            held=self._inbox.held(peer),
        )

    def _remember_nonce(self, nonce: bytes) -> None:
        self._nonces[nonce] = None
        if len(self._nonces) > BUS_NONCES_KEPT:
            self._nonces.popitem(last=False)

    def _remember_message(self, peer: bytes, message_id: bytes, now: int) -> None:
        known = self._message_ids.setdefault(peer, OrderedDict())
        known[message_id] = now
        known.move_to_end(message_id)
        while len(known) > BUS_MEMORY_MESSAGE_IDS_MAX or admission.is_outdated(next(iter(known.values())), now):
            known.popitem(last=False)

    def _by_last_seen(self) -> list[KnownPeer]:
        return sorted(self._peers.values(), key=lambda peer: (-peer.seen_at, peer.fingerprint))

    def _item(self, outbox_id: int) -> OutboxItem | None:
        check_id("outbox_id", outbox_id)
        return self._outbox.get(outbox_id)

    def _remove(self, item: OutboxItem | None) -> bool:
        if item is None:
            return False
        self._outbox.take(item.id)
        del self._outbox_ids[item.message_id]
        return True

    def _live(self, now: int) -> list[OutboxItem]:
        return [item for item in self._outbox if item.wedged is None and item.expires_at > now]

    def _draw_nearer(self, now: int) -> None:
        """What was written under a later clock waits and lives no longer than what is written now."""
        check_time("now", now)
        wait, expiry = admission.latest_wait(now), admission.latest_expiry(now)
        for item in self._outbox:
            if item.not_before > wait or item.expires_at > expiry:
                nearer = item._replace(not_before=min(item.not_before, wait), expires_at=min(item.expires_at, expiry))
                self._outbox.change(nearer)
