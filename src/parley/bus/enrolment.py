"""Enrolment: how the key of a machine gets a certificate of the user's, over two lines that a person carries.

A request names the agent's public key and proves that whoever made it has the secret one. A grant answers it with all
that the machine needs: the certificate chain, and an X.509 leaf and root for TLS. Neither line is secret. Which of them
to believe, the person decides who carries them; both sides show fingerprints to compare.
"""

from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from parley.bus.blocks import BlockReader, Malformed, block
from parley.bus.caveats import Caveats, Time
from parley.bus.chain import Authority, Chain, certify, decode_chain, verify
from parley.bus.fingerprint import Fingerprint, Hex32
from parley.bus.lines import read_line, write_line
from parley.bus.revocation import Revocations
from parley.bus.signed import read_signed, sign
from parley.bus.x509 import DER_BYTES_MAX, TlsCertificates, check_certificates, make_certificates
from parley.core import limits, sealing
from parley.core.bus_errors import LineInvalid

TAG: Final = b"parley bus request 1\n"
DAY_MS: Final = 24 * 3_600_000
_REQUEST_BYTES_MAX: Final = 2_048
Host = Annotated[str, Meta(max_length=limits.AGENT_TEXT_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]*(?![\s\S])")]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine that asks to be let in."""

    agent: Hex32
    """The public key."""
    host: Host
    """What the machine calls itself; a claim, for the person who issues."""
    requested_at_ms: Time


class Grant(NamedTuple):
    """What a machine is let in with. Nothing about it is known to be true before ``check_grant``."""

    chain: Chain
    tls: TlsCertificates

    def line(self) -> str:
        """The line that ``read_grant`` reads."""
        return write_line("grant", b"".join(map(block, (self.chain.encode(), *self.tls))))


def request_line(agent_seed: bytes, *, host: str, now_ms: int) -> str:
    """The line with which a machine asks."""
    request = Request(sealing.public_key(agent_seed).hex(), host, now_ms)
    return write_line("request", sign(request, TAG, agent_seed).encode())


def read_request(text: str) -> Request:
    """A request whose maker has the key that it names. Raises ``LineInvalid``."""
    reader = BlockReader(read_line(text, "request").payload)
    try:
        found = read_signed(reader, Request, _REQUEST_BYTES_MAX)
        reader.end()
    except Malformed as error:
        raise LineInvalid(f"the request cannot be read: {error}", reason="malformed") from error
    key = bytes.fromhex(found.value.agent)
    if not found.is_by(key, TAG) or not sealing.can_be_sealed_to(key):
        raise LineInvalid("the request was not signed with the key that it names", reason="forged")
    return found.value


def issue_grant(user_seed: bytes, agent_key: bytes, *, role: str, caveats: Caveats, now_ms: int) -> Grant:
    """The user's word for an agent, as a chain and for TLS."""
    chain = certify(user_seed, agent_key, role=role, caveats=caveats, now_ms=now_ms)
    expires_at_ms = limits.TIME_MS_MAX if caveats.expires_at_ms is None else caveats.expires_at_ms
    tls = make_certificates(user_seed, agent_key, issued_at_ms=now_ms, expires_at_ms=expires_at_ms)
    return Grant(chain, tls)


def read_grant(text: str) -> Grant:
    """The grant as it is written. Raises ``LineInvalid``, or ``ChainInvalid`` for what is no chain."""
    reader = BlockReader(read_line(text, "grant").payload)
    try:
        chain = reader.block(limits.BUS_CHAIN_BYTES_MAX)
        leaf, root = bytes(reader.block(DER_BYTES_MAX)), bytes(reader.block(DER_BYTES_MAX))
        reader.end()
    except Malformed as error:
        raise LineInvalid(f"the grant cannot be read: {error}", reason="malformed") from error
    return Grant(decode_chain(chain), TlsCertificates(leaf, root))


def check_grant(grant: Grant, *, user: Fingerprint | None, now_ms: int, revocations: Revocations) -> Authority:
    """What the grant allows. Raises what ``chain.verify`` raises, also for X.509 certificates of other keys."""
    authority = verify(grant.chain, user=user, now_ms=now_ms, revocations=revocations)
    check_certificates(grant.tls, user_key=grant.chain.user_key, agent_key=grant.chain.agent_key)
    return authority


def renewed(user_seed: bytes, chain: Chain, *, generation: int, now_ms: int) -> Grant:
    """A grant for the same for as long again, in the user's present generation."""
    last = chain.last
    caveats = last.caveats
    if caveats.expires_at_ms is not None:
        lasts_ms = caveats.expires_at_ms - last.issued_at_ms
        caveats = msgspec.structs.replace(caveats, expires_at_ms=min(now_ms + lasts_ms, limits.TIME_MS_MAX))
    if caveats.generation is not None:
        caveats = msgspec.structs.replace(caveats, generation=generation)
    return issue_grant(user_seed, chain.agent_key, role=last.role, caveats=caveats, now_ms=now_ms)


def is_due(chain: Chain, *, generation: int, now_ms: int) -> bool:
    """Whether whoever has the user key renews it now: it ends soon, or is of an older generation.

    A certificate that was issued for a short time is renewed in the last third of it.
    """
    caveats = chain.last.caveats
    if caveats.generation is not None and caveats.generation < generation:
        return True
    if caveats.expires_at_ms is None:
        return False
    lasts_ms = caveats.expires_at_ms - chain.last.issued_at_ms
    return caveats.expires_at_ms - now_ms < min(limits.BUS_RENEWAL_DAYS * DAY_MS, lasts_ms // 3)


def renews_itself(chain: Chain) -> bool:
    """Whether a certificate may be renewed without anybody asking for it.

    One that counts calls may not: under the new one they would be counted from the beginning. One that an agent has
    issued is that agent's to renew.
    """
    return len(chain.links) == 1 and chain.last.caveats.calls_max is None


def is_renewal(new: Chain, old: Chain) -> bool:
    """Whether the new chain allows the same as the old one to the same agent, for longer."""
    before, after = old.last.caveats, new.last.caveats
    if before.expires_at_ms is None or after.expires_at_ms is None:
        return False
    return (
        (new.user_key, new.agent_key, new.last.role) == (old.user_key, old.agent_key, old.last.role)
        and len(new.links) == len(old.links) == 1
        and after.expires_at_ms > before.expires_at_ms
        and (after.topics, after.calls_max) == (before.topics, before.calls_max)
    )
