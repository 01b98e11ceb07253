"""Renewing in the folder of a machine: with the user key for others and for itself, without it by what others send.

A certificate is renewed for as long again and for the same, unless its key was revoked or whoever issued it said that
it ends (``--no-renewal``).
"""

from parley.bus.chain import Chain, verify
from parley.bus.enrolment import Grant, is_due, is_renewal, read_grant, renewed, renews_itself
from parley.bus.fingerprint import fingerprint_of
from parley.bus.home import BusHome, locked
from parley.bus.issued import Issued, keep_issued, read_issued
from parley.bus.standing import Standing, keep_grant, load_standing
from parley.core.clock import Clock, SystemClock


def renew_peer(home: BusHome, chain: Chain, clock: Clock | None = None) -> str | None:
    """The line of a new grant for the agent of a chain that is due; None for one that gets none.

    Raises what ``chain.verify`` raises for a chain that does not hold.
    """
    now_ms = (clock or SystemClock()).now_ms()
    with locked(home):
        standing = load_standing(home)
        if standing.user_seed is None:
            return None
        authority = verify(chain, user=standing.user, now_ms=now_ms, revocations=standing.revocations)
        generation = standing.revocations.generation
        known = {each.agent: each for each in read_issued(home)}.get(authority.agent.hex())
        ends = known is not None and not known.renewal
        if ends or not renews_itself(chain) or not is_due(chain, generation=generation, now_ms=now_ms):
            return None
        grant = renewed(standing.user_seed, chain, generation=generation, now_ms=now_ms)
        _note(home, grant, "" if known is None else known.host, now_ms)
    return grant.line()


def keep_renewal(home: BusHome, line: str, clock: Clock | None = None) -> bool:
    """Takes a new grant for this machine in the place of the one that it has; whether it is one.

    What allows anything else than before is left alone: an old grant is signed by the user as well. Raises what
    ``Standing.judge`` raises for a grant that does not hold.
    """
    grant = read_grant(line)
    with locked(home):
        standing = load_standing(home)
        if standing.grant is None or not is_renewal(grant.chain, standing.grant.chain):
            return False
        standing.judge(grant, (clock or SystemClock()).now_ms())
        keep_grant(home, grant)
    return True


def renew_own(home: BusHome, clock: Clock | None = None) -> bool:
    """Renews the certificate of the machine with the user key when it is due, and tells whether it did."""
    now_ms = (clock or SystemClock()).now_ms()
    standing = load_standing(home)
    if standing.user_seed is None or standing.grant is None:
        return False
    with locked(home):
        return renew_standing(home, load_standing(home), now_ms)


def renew_standing(home: BusHome, standing: Standing, now_ms: int) -> bool:
    """The same for a standing that was just loaded. The folder must be ``locked``."""
    user_seed, generation = standing.require_user_seed(), standing.revocations.generation
    if standing.grant is None or standing.agent in standing.revocations.revoked:
        return False
    if not is_due(standing.grant.chain, generation=generation, now_ms=now_ms):
        return False
    keep_grant(home, renewed(user_seed, standing.grant.chain, generation=generation, now_ms=now_ms))
    return True


def _note(home: BusHome, grant: Grant, host: str, now_ms: int) -> None:
    last, agent = grant.chain.last, fingerprint_of(grant.chain.agent_key)
    if last.caveats.expires_at_ms is not None:
        keep_issued(home, Issued(agent.hex(), host, last.role, last.caveats.expires_at_ms), now_ms)
