"""``parley bus``: the keys of a user's machines, and what lets them talk.

Each function is a command. What it returns is what the command prints with ``--json``.
"""

import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from parley.bus.caveats import Caveats, topic_names
from parley.bus.chain import Authority
from parley.bus.enrolment import (
    DAY_MS,
    Grant,
    check_grant,
    issue_grant,
    read_grant,
    read_request,
    renewed,
    request_line,
)
from parley.bus.fingerprint import Fingerprint, fingerprint_of, parse_fingerprint
from parley.bus.home import BusHome, bus_home, locked, make_key
from parley.bus.issued import Issued, keep_issued, read_issued
from parley.bus.lines import read_line, split_lines
from parley.bus.renewal import renew_standing
from parley.bus.revocation import NOTHING_REVOKED, Statement, decode_statement, state
from parley.bus.signed import Signed
from parley.bus.standing import Standing, keep_grant, keep_revocations, load_standing, statement_line
from parley.core import limits, sealing
from parley.core.bus_errors import CertificateExpired, NoIdentity, OtherUser, Revoked
from parley.core.clock import Clock, SystemClock, iso
from parley.core.errors import InvalidInput


def keygen(role: str, clock: Clock | None = None) -> dict[str, Any]:
    """Makes the user key, and this machine an agent of its user. What is there stays; what is due is renewed."""
    home, now_ms = bus_home(), _now(clock)
    with locked(home):
        before = load_standing(home)
        if before.user_seed is None and before.grant is not None:
            user = _hex(before.user)
            raise OtherUser(f"this machine was let in by the user {user}, whose key is elsewhere", user=user)
        created = make_key(home.user_key)
        make_key(home.agent_key)
        standing = load_standing(home)
        certified = _keep_certified(home, standing, role, now_ms)
    return {"created": created, "renewed": certified and not created, **_report(home, load_standing(home), now_ms)}


def whoami(clock: Clock | None = None) -> dict[str, Any]:
    """What this machine is. Raises ``NoIdentity`` when it has no key at all."""
    home = bus_home()
    standing = load_standing(home)
    if standing.user is None and standing.agent is None:
        raise NoIdentity(f"there is no key in {home.root}")
    return _report(home, standing, _now(clock))


def request(clock: Clock | None = None) -> dict[str, Any]:
    """Makes the agent key unless there is one, and the line with which it asks to be let in."""
    home = bus_home()
    with locked(home):
        make_key(home.agent_key)
        standing = load_standing(home)
    assert standing.agent_seed is not None
    host = "".join(filter(str.isprintable, socket.gethostname()))[: limits.AGENT_TEXT_CHARS_MAX]
    line = request_line(standing.agent_seed, host=host, now_ms=_now(clock))
    return {"request": line, "agent": _hex(standing.agent), "user": _hex(standing.user)}


class Terms(NamedTuple):
    """What a machine is let in for."""

    role: str
    days: int
    topics: Sequence[str]
    no_topics: bool
    calls_max: int | None
    renewal: bool = True
    """Whether the machine with the user key renews the certificate when the two meet."""

    def caveats(self, generation: int, now_ms: int) -> Caveats:
        """As limits of a certificate that is issued now. Raises ``InvalidInput``."""
        if self.topics and self.no_topics:
            raise InvalidInput("Name topics, or say that there are none, not both.", field="topics")
        return Caveats(
            calls_max=self.calls_max,
            expires_at_ms=min(now_ms + self.days * DAY_MS, limits.TIME_MS_MAX),
            generation=generation,
            topics=topic_names(self.topics) if self.topics or self.no_topics else None,
        )


def issue(
    line: str,
    *,
    role: str,
    days: int,
    topics: Sequence[str],
    no_topics: bool,
    calls_max: int | None,
    renewal: bool = True,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Lets in the machine that made the request, within these limits."""
    return let_in(line, Terms(role, days, topics, no_topics, calls_max, renewal), clock)


def let_in(line: str, terms: Terms, clock: Clock | None = None) -> dict[str, Any]:
    """Lets in the machine that made the request, on these terms."""
    home, now_ms = bus_home(), _now(clock)
    asked = read_request(line)
    agent_key = bytes.fromhex(asked.agent)
    agent = fingerprint_of(agent_key)
    load_standing(home).require_user_seed()  # before a lock makes a folder where there is none
    with locked(home):
        standing = load_standing(home)
        if agent in standing.revocations.revoked:
            raise Revoked("this key was revoked", key=agent.hex())
        caveats = terms.caveats(standing.revocations.generation, now_ms)
        grant = issue_grant(standing.require_user_seed(), agent_key, role=terms.role, caveats=caveats, now_ms=now_ms)
        assert caveats.expires_at_ms is not None
        issued = Issued(agent.hex(), asked.host, terms.role, caveats.expires_at_ms, terms.renewal)
        keep_issued(home, issued, now_ms)
    return {"grant": grant.line(), "host": asked.host, **_allowed(standing.judge(grant, now_ms))}


def accept(line: str, clock: Clock | None = None) -> dict[str, Any]:
    """Stores a grant for this machine, or a statement of its user."""
    home, now_ms = bus_home(), _now(clock)
    kind = read_line(line, "grant", "statement").kind
    if load_standing(home).agent is None:
        raise NoIdentity("this machine has not asked to be let in")
    with locked(home):
        standing = load_standing(home)
        accepted = (
            _accept_grant(home, standing, line, now_ms) if kind == "grant" else _accept_statement(home, standing, line)
        )
    return {"accepted": kind, **accepted}


def revoke(names: Sequence[str], *, everything: bool, clock: Clock | None = None) -> dict[str, Any]:
    """Makes a statement that revokes these agents, or with ``everything`` all certificates there are."""
    if not names and not everything:
        raise InvalidInput("Whom? Name fingerprints, or give --all.", field="fingerprint")
    home, now_ms = bus_home(), _now(clock)
    wanted = [parse_fingerprint(name) for name in names]
    load_standing(home).require_user_seed()
    with locked(home):
        standing = load_standing(home)
        user_seed = standing.require_user_seed()
        known = standing.revocations
        new = state(user_seed, known, wanted, next_generation=everything, now_ms=now_ms)
        merged = known.merge(new)
        keep_revocations(home, merged)
        own = standing.agent is not None and standing.agent not in merged.revoked
        if everything and own and standing.grant is not None:  # who holds the user key revokes the others
            keep_grant(home, renewed(user_seed, standing.grant.chain, generation=merged.generation, now_ms=now_ms))
    (newest,) = merged.statements
    return {"statement": statement_line(newest), "changed": merged is not known, **_stated(newest)}


def verify(text: str, clock: Clock | None = None) -> dict[str, Any]:
    """What each line of a text says, if all of them hold."""
    standing, now_ms = load_standing(bus_home()), _now(clock)
    return {"found": [_verified(standing, line, now_ms) for line in split_lines(text)]}


def _keep_certified(home: BusHome, standing: Standing, role: str, now_ms: int) -> bool:
    """Gives the machine with the user key a certificate, or a new one when that is due. Whether it did."""
    user_seed = standing.require_user_seed()
    assert standing.agent_seed is not None
    if standing.grant is not None:
        return renew_standing(home, standing, now_ms)
    agent_key = sealing.public_key(standing.agent_seed)
    expires_at_ms = now_ms + limits.BUS_CERTIFICATE_DAYS * DAY_MS
    caveats = Caveats(expires_at_ms=expires_at_ms, generation=standing.revocations.generation)
    keep_grant(home, issue_grant(user_seed, agent_key, role=role, caveats=caveats, now_ms=now_ms))
    return True


def _accept_grant(home: BusHome, standing: Standing, line: str, now_ms: int) -> dict[str, Any]:
    grant = read_grant(line)
    authority = standing.judge(grant, now_ms)
    standing.require_own(grant)
    keep_grant(home, grant)
    return _allowed(authority)


def _accept_statement(home: BusHome, standing: Standing, line: str) -> dict[str, Any]:
    if standing.user is None:
        raise NoIdentity("this machine belongs to no user yet")
    statement = decode_statement(read_line(line, "statement").payload, user=standing.user)
    merged = standing.revocations.merge(statement)
    if merged is not standing.revocations:
        keep_revocations(home, merged)
    return {"changed": merged is not standing.revocations, **_stated(statement)}


def _verified(standing: Standing, line: str, now_ms: int) -> dict[str, Any]:
    kind = read_line(line, "request", "grant", "statement").kind
    known = standing.user is not None
    if kind == "request":
        asked = read_request(line)
        agent = fingerprint_of(bytes.fromhex(asked.agent))
        return {"kind": kind, "agent": _hex(agent), "host": asked.host, "requested_at": iso(asked.requested_at_ms)}
    if kind == "grant":
        return {"kind": kind, "user_known": known, **_allowed(standing.judge(read_grant(line), now_ms))}
    statement = decode_statement(read_line(line, kind).payload, user=standing.user)
    return {"kind": kind, "user_known": known, **_stated(statement), "fingerprints": list(statement.value.revoked)}


def _report(home: BusHome, standing: Standing, now_ms: int) -> dict[str, Any]:
    return {
        "folder": str(home.root),
        "user": _hex(standing.user),
        "user_key": standing.user_seed is not None,
        "agent": _hex(standing.agent),
        "standing": _word(standing, now_ms),
        "certificate": _certificate(standing.grant),
        "generation": standing.revocations.generation,
        "revoked": len(standing.revocations.revoked),
        "issued": [_issued(each, standing) for each in read_issued(home)],
    }


def _issued(each: Issued, standing: Standing) -> dict[str, Any]:
    return {
        "agent": each.agent,
        "host": each.host,
        "role": each.role,
        "expires_at": iso(each.expires_at_ms),
        "renewal": each.renewal,
        "revoked": bytes.fromhex(each.agent) in standing.revocations.revoked,
    }


def _word(standing: Standing, now_ms: int) -> str:
    try:
        standing.authority(now_ms)
    except NoIdentity:
        return "not_enrolled"
    except CertificateExpired:
        return "expired"
    except Revoked:
        return "revoked"
    return "valid"


def _certificate(grant: Grant | None) -> dict[str, Any] | None:
    if grant is None:
        return None
    everything = check_grant(grant, user=None, now_ms=0, revocations=NOTHING_REVOKED)
    return {"issued_at": iso(grant.chain.last.issued_at_ms), **_limits(everything)}


def _allowed(authority: Authority) -> dict[str, Any]:
    return {"user": _hex(authority.user), "agent": _hex(authority.agent), **_limits(authority)}


def _limits(authority: Authority) -> dict[str, Any]:
    caveats = authority.caveats
    return {
        "role": authority.role,
        "expires_at": None if caveats.expires_at_ms is None else iso(caveats.expires_at_ms),
        "generation": caveats.generation,
        "topics": None if caveats.topics is None else list(caveats.topics),
        "calls_max": caveats.calls_max,
    }


def _stated(statement: Signed[Statement]) -> dict[str, Any]:
    value = statement.value
    return {
        "user": fingerprint_of(bytes.fromhex(value.user)).hex(),
        "generation": value.generation,
        "revoked": len(value.revoked),
        "stated_at": iso(value.stated_at_ms),
    }


def _hex(name: Fingerprint | None) -> str | None:
    return None if name is None else name.hex()


def _now(clock: Clock | None) -> int:
    return (clock or SystemClock()).now_ms()
