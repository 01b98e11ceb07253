"""A mesh with a roster at a broker's store, with the keys of everybody in it."""

from collections.abc import Sequence
from typing import Any

from parley.broker.done import Done
from parley.broker.methods import CallMethod
from parley.broker.roster_methods import CallAsJoiner
from parley.broker.rules.broker_key import broker_key, make_broker_key
from parley.broker.rules.roster_founding import TakeRoster
from parley.broker.rules.roster_log import Kept, get_roster
from parley.broker.store import BrokerStore
from parley.broker.tx import Row
from parley.core.clock import ManualClock
from parley.core.errors import ParleyError
from parley.core.roster import Invite, State, apply, entries
from parley.wire.mesh_http import FoundRoster
from tests.core.roster.town import START, Town, key_of

BROKER_SEED = b"\5" * 32
TABLES = ("mesh_log", "roster", "roster_turn", "member", "member_key")
"""What an append may change."""


def texts(log: Sequence[bytes]) -> list[str]:
    return [each.decode() for each in log]


def founding(store: BrokerStore, clock: ManualClock, founder: str = "ada") -> Town:
    """A roster that names the store's broker, and that it has not seen yet; it is now at both."""
    clock.jump(START - clock.now_ms())
    store.call(lambda tx: make_broker_key(tx, BROKER_SEED))
    town = Town(founder)
    town.do(founder, "broker", entries.NameBroker(store.call(broker_key)))
    return town


def take(store: BrokerStore, town: Town, slug: str = "red", log: Sequence[bytes] | None = None) -> TakeRoster:
    return TakeRoster(FoundRoster(slug, texts(town.log if log is None else log)), store.policy)


class Rostered:
    """Ada's mesh; others join it."""

    def __init__(self, store: BrokerStore, clock: ManualClock, slug: str = "red") -> None:
        self.store = store
        self.clock = clock
        self.town = founding(store, clock)
        self.mesh_id = store.call(take(store, self.town, slug)).answer.mesh_id

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.town.now += round(seconds * 1000)

    def call(self, name: str, method: str, **params: Any) -> Done:
        """A request of a member, or of somebody who is none yet."""
        member = self.town.ids.get(name)
        if member is None:
            return self.store.call(CallAsJoiner(self.mesh_id, key_of(name), method, params))
        return self.store.call(CallMethod(self.mesh_id, member, method, params))

    def offer(self, name: str, *data: bytes, after: int | None = None) -> Done:
        """Offers entries; what was taken is in the town's log then."""
        place = self.town.state.n if after is None else after
        done = self.call(name, "roster_append", after=place, entries=texts(data))
        if done.result["appended"] and place == self.town.state.n:
            for each in data:
                assert self.town.offer(each) is None
        return done

    def do(self, name: str, kind: entries.Kind, body: entries.Body) -> Done:
        done = self.offer(name, self.town.entry(name, kind, body))
        assert done.result["appended"], done.result
        return done

    def join(self, name: str, invite: Invite | None = None, by: str = "ada") -> Done:
        done = self.offer(name, self.town.joining(name, invite or self.town.invite(by)))
        assert done.result["appended"], done.result
        self.town.ids[name] = self.town.state.names[name]
        return done

    def refusal(self, name: str, *data: bytes, after: int | None = None) -> tuple[str, str]:
        """The code with which entries are refused, and the reason; and nothing was changed by them."""
        before = self.rows()
        try:
            done = self.offer(name, *data, after=after)
        except ParleyError as error:
            assert self.rows() == before
            return error.code, str(error.details.get("reason", ""))
        raise AssertionError(done.result)

    def kept(self) -> Kept:
        return self.store.call(lambda tx: get_roster(tx, self.mesh_id))

    def log(self) -> list[bytes]:
        rows = self.all("SELECT entry FROM mesh_log WHERE mesh_id = ? AND n IS NOT NULL ORDER BY n", self.mesh_id)
        return [bytes(entry) for (entry,) in rows]

    def rows(self) -> dict[str, list[Row]]:
        return {
            table: sorted(self.all(f"SELECT * FROM {table}"), key=lambda row: repr(row).encode()) for table in TABLES
        }

    def members(self) -> dict[str, tuple[str, str]]:
        """Role and state by name, as the broker looks members up."""
        rows = self.all("SELECT display_name, role, state FROM member WHERE mesh_id = ?", self.mesh_id)
        return {name: (role, state) for name, role, state in rows}

    def all(self, sql: str, *args: Any) -> list[Row]:
        return self.store.call(lambda tx: tx.all(sql, *args))


class Follower:
    """Somebody who appends at the same time as others: it has a copy of the roster, which may be behind."""

    def __init__(self, mesh: Rostered) -> None:
        self.state = mesh.town.state
        self.behind = 0
        """How often others came first."""

    def read(self, missing: Sequence[str]) -> None:
        """Applies what it was told came before."""
        for text in missing:
            after = apply(self.state, text.encode())
            assert isinstance(after, State), after
            self.state = after
        self.behind += bool(missing)
