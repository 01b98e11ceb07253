"""What a machine is on the bus: whose it is, which agent, and what it may do, read from its folder.

The folder belongs to one user. With the user key it is that key's owner; without, whoever issued the grant that the
machine accepted first. Another user's grant or statement is refused from then on.
"""

from pathlib import Path
from typing import NamedTuple

from parley.bus.chain import Authority
from parley.bus.enrolment import Grant, check_grant, read_grant
from parley.bus.fingerprint import Fingerprint, fingerprint_of
from parley.bus.home import BusHome, check_folder, locked, read_key, read_private, write_lines
from parley.bus.lines import read_line, split_lines, write_line
from parley.bus.revocation import NOTHING_REVOKED, Revocations, Statement, decode_statement
from parley.bus.signed import Signed
from parley.bus.trust import Identity
from parley.core import sealing
from parley.core.bus_errors import BusError, ChainInvalid, FileDamaged, NoIdentity, UserKeyMissing


class Standing(NamedTuple):
    """What the folder holds. Whether the grant holds now is asked by ``authority``."""

    user_seed: bytes | None
    agent_seed: bytes | None
    grant: Grant | None
    revocations: Revocations

    @property
    def user(self) -> Fingerprint | None:
        """Whose machine it is; None before it was let in."""
        if self.user_seed is not None:
            return fingerprint_of(sealing.public_key(self.user_seed))
        return None if self.grant is None else fingerprint_of(self.grant.chain.user_key)

    @property
    def agent(self) -> Fingerprint | None:
        """Which agent the machine is; None before it made a key."""
        return None if self.agent_seed is None else fingerprint_of(sealing.public_key(self.agent_seed))

    def authority(self, now_ms: int) -> Authority:
        """What the machine may do now. Raises ``NoIdentity``, or what ``check_grant`` raises."""
        if self.grant is None:
            raise NoIdentity("this machine has no certificate yet")
        return self.judge(self.grant, now_ms)

    def judge(self, grant: Grant, now_ms: int) -> Authority:
        """What a grant allows as far as is known here. Raises what ``check_grant`` raises."""
        user = self.user
        # What another user revokes says nothing about a grant of somebody else's.
        ours = user is not None and fingerprint_of(grant.chain.user_key) == user
        known = self.revocations if ours else NOTHING_REVOKED
        return check_grant(grant, user=user, now_ms=now_ms, revocations=known)

    def require_user_seed(self) -> bytes:
        """The user key. Raises ``UserKeyMissing``."""
        if self.user_seed is None:
            raise UserKeyMissing("the user key is not on this machine")
        return self.user_seed

    def require_own(self, grant: Grant) -> None:
        """Raises ``ChainInvalid`` for a grant of another key than this machine's."""
        if self.agent != fingerprint_of(grant.chain.agent_key):
            raise ChainInvalid(
                "the certificate is for another key than this machine's",
                certified=fingerprint_of(grant.chain.agent_key).hex(),
                agent=None if self.agent is None else self.agent.hex(),
            )


def load_standing(home: BusHome) -> Standing:
    """What is in the folder. Raises ``FileUnsafe``, or ``FileDamaged`` for what does not fit together."""
    check_folder(home)
    user_seed, agent_seed = read_key(home.user_key), read_key(home.agent_key)
    text = _text(home.grant)
    try:
        grant = None if text is None else read_grant(text)
        standing = Standing(user_seed, agent_seed, grant, NOTHING_REVOKED)
        if grant is not None:
            standing.require_own(grant)
            if fingerprint_of(grant.chain.user_key) != standing.user:
                raise ChainInvalid("the certificate is not by the user whose key is here")
    except BusError as error:
        raise FileDamaged(f"{home.grant} does not hold this machine's grant: {error}", path=str(home.grant)) from error
    return standing._replace(revocations=_read_revocations(home, standing.user))


def keep_grant(home: BusHome, grant: Grant) -> None:
    """Puts a grant in the place of the one that was there."""
    write_lines(home.grant, grant.line())


def keep_revocations(home: BusHome, revocations: Revocations) -> None:
    """Writes down every statement that is not covered by another."""
    write_lines(home.revocations, *map(statement_line, revocations.statements))


def identity_of(standing: Standing) -> Identity:
    """Who this machine is on a bus. Raises ``NoIdentity``."""
    if standing.agent_seed is None or standing.grant is None:
        raise NoIdentity("this machine has no key or no certificate yet")
    return Identity(standing.agent_seed, standing.grant.chain, standing.revocations)


def add_revocations(home: BusHome, learned: Revocations) -> None:
    """Writes down what a bus has learned beside what is known here, which commands may have added to."""
    with locked(home):
        known = merged = load_standing(home).revocations
        for each in learned.statements:
            merged = merged.merge(each)
        if merged is not known:
            keep_revocations(home, merged)


def statement_line(statement: Signed[Statement]) -> str:
    """The line that hands a statement on."""
    return write_line("statement", statement.encode())


def _read_revocations(home: BusHome, user: Fingerprint | None) -> Revocations:
    """Fails rather than forget: without the file, what was revoked would be accepted again."""
    text = _text(home.revocations)
    known = NOTHING_REVOKED
    try:
        for line in split_lines(text or ""):
            if line:
                known = known.merge(decode_statement(read_line(line, "statement").payload, user=user))
    except BusError as error:
        raise FileDamaged(f"{home.revocations} cannot be read: {error}", path=str(home.revocations)) from error
    if text is not None and known is NOTHING_REVOKED:
        raise FileDamaged(f"{home.revocations} is empty, and was not written so", path=str(home.revocations))
    return known


def _text(path: Path) -> str | None:
    data = read_private(path)
    if data is None:
        return None
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise FileDamaged(f"{path} is not text", path=str(path)) from error
