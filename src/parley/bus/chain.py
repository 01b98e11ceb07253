"""Certificate chains: who let an agent speak, from the user's key down to the agent's, and what it may do.

A certificate says that its issuer lets its subject act in a role, within caveats. The first one of a chain is issued by
the user's key, each other one by the subject of the one before, and none allows what the one before did not.
As bytes a chain is ``u8 number of certificates ‖ each as a signed text``.

``verify`` is the only way from a chain to an ``Authority``. It looks at signatures first, so that nothing which a
stranger wrote decides which refusal is given.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

import msgspec
from blake3 import blake3
from msgspec import Meta

from parley.bus.blocks import BlockReader, Buffer, Malformed
from parley.bus.caveats import Caveats, Time
from parley.bus.fingerprint import Fingerprint, Hex32, fingerprint_of
from parley.bus.revocation import Revocations
from parley.bus.signed import Signed, read_signed, sign
from parley.core import limits, sealing
from parley.core.bus_errors import CallsExhausted, CertificateExpired, ChainInvalid, OtherUser, Revoked, TopicRefused
from parley.core.clock import iso
from parley.core.errors import InvalidInput

TAG: Final = b"parley bus certificate 1\n"
_CHAINS_CACHED: Final = 256
"""Chains that were read and whose signatures hold: the same one comes with every envelope of an agent."""
Role = Annotated[str, Meta(min_length=1, max_length=limits.BUS_ROLE_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]*(?![\s\S])")]


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One link. ``issuer`` and ``subject`` are public keys."""

    caveats: Caveats
    issued_at_ms: Time
    """For people; only ``caveats`` decide until when it holds."""
    issuer: Hex32
    role: Role
    """What the issuer calls the subject; it decides nothing."""
    subject: Hex32


class Chain(NamedTuple):
    """Certificates, the user's first. Nothing about it is known to be true before ``verify``."""

    links: tuple[Signed[Certificate], ...]

    def __hash__(self) -> int:
        """Looked up with every message, so it is not made of every member of every certificate."""
        return hash(self.links[-1].signature)

    @property
    def user_key(self) -> bytes:
        """The public key that the chain begins with."""
        return bytes.fromhex(self.links[0].value.issuer)

    @property
    def agent_key(self) -> bytes:
        """The public key that the chain is about."""
        return bytes.fromhex(self.links[-1].value.subject)

    @property
    def last(self) -> Certificate:
        """The agent's own certificate."""
        return self.links[-1].value

    def encode(self) -> bytes:
        """The bytes that ``decode_chain`` reads."""
        return bytes([len(self.links)]) + b"".join(each.encode() for each in self.links)


class CallLimit(NamedTuple):
    """A certificate that counts calls. Whoever admits an envelope counts one for each of its chain's."""

    certificate: bytes
    """BLAKE3 of the certificate's text."""
    calls_max: int


class Authority(NamedTuple):
    """What a verified chain gives its agent, at the time when it was verified."""

    user: Fingerprint
    agent: Fingerprint
    agent_key: bytes
    role: str
    caveats: Caveats
    call_limits: tuple[CallLimit, ...]
    """Of every certificate of the chain: an agent cannot multiply its calls by handing them to others."""

    def require_topic(self, topic: str) -> None:
        """Raises ``TopicRefused`` unless the agent may use this topic."""
        if self.caveats.topics is not None and topic not in self.caveats.topics:
            raise TopicRefused(f"the certificate does not allow the topic {topic!r}", topic=topic)

    def require_calls(self, limit: CallLimit, used: int) -> None:
        """Raises ``CallsExhausted`` if this many calls under this limit are all that it allows."""
        if used >= limit.calls_max:
            raise CallsExhausted(f"the certificate allows {limit.calls_max} calls", calls_max=limit.calls_max)


def certify(
    issuer_seed: bytes, subject: bytes, *, role: str, caveats: Caveats, now_ms: int, parent: Chain | None = None
) -> Chain:
    """The chain of a subject whom the issuer lets in: the user without a parent, an agent with the chain of its own.

    What the issuer may not do itself is left out of what it allows. Raises ``ChainInvalid`` when the chain would be
    too long or the parent is not the issuer's, and ``InvalidInput`` for a role or caveats that nobody would read.
    """
    issuer = sealing.public_key(issuer_seed)
    links = () if parent is None else parent.links
    if len(links) >= limits.BUS_CHAIN_DEPTH_MAX:
        raise ChainInvalid(f"a chain has at most {limits.BUS_CHAIN_DEPTH_MAX} certificates")
    if parent is not None:
        if parent.agent_key != issuer:
            raise ChainInvalid("the chain above is not that of the issuer's key")
        caveats = caveats.meet(parent.last.caveats)
    certificate = Certificate(
        caveats=caveats, issued_at_ms=now_ms, issuer=issuer.hex(), role=role, subject=subject.hex()
    )
    link = sign(certificate, TAG, issuer_seed)
    if len(link.text) > limits.BUS_CERTIFICATE_BYTES_MAX:
        raise InvalidInput("the topics are too long together for one certificate", field="topics")
    return Chain((*links, link))


def decode_chain(data: Buffer) -> Chain:
    """The chain as it is written. Raises ``ChainInvalid`` for bytes that are none."""
    return _decode(bytes(data))


@lru_cache(_CHAINS_CACHED)
def _decode(data: bytes) -> Chain:
    reader = BlockReader(data)
    try:
        count = reader.take(1)[0]
        if not 1 <= count <= limits.BUS_CHAIN_DEPTH_MAX:
            raise Malformed(f"a chain has 1 to {limits.BUS_CHAIN_DEPTH_MAX} certificates, not {count}")
        links = tuple(read_signed(reader, Certificate, limits.BUS_CERTIFICATE_BYTES_MAX) for _ in range(count))
        reader.end()
    except Malformed as error:
        raise ChainInvalid(f"the certificates cannot be read: {error}") from error
    return Chain(links)


def verify(chain: Chain, *, user: Fingerprint | None, now_ms: int, revocations: Revocations) -> Authority:
    """What the chain allows now, to an agent of this user; of any user when it is None.

    Raises ``ChainInvalid``, ``OtherUser``, ``Revoked`` or ``CertificateExpired``, looked for in this order.
    ``revocations`` are those of the same user.
    """
    checked = _check_links(chain)
    root = checked.authority.user
    if user is not None and root != user:
        raise OtherUser("the certificate was issued by another user", user=root.hex())
    _check_revoked(chain, checked.names, revocations)
    _check_expired(chain, now_ms)
    return checked.authority


class _Checked(NamedTuple):
    """A chain whose certificates belong together."""

    authority: Authority
    names: tuple[Fingerprint, ...]
    """The user's, and each subject's."""


@lru_cache(_CHAINS_CACHED)
def _check_links(chain: Chain) -> _Checked:
    """What no time and no revocation changes."""
    above: Certificate | None = None
    for each in chain.links:
        certificate = each.value
        if not each.is_by(bytes.fromhex(certificate.issuer), TAG):
            raise ChainInvalid("a certificate was not signed by the issuer whom it names")
        if above is not None:
            if certificate.issuer != above.subject:
                raise ChainInvalid("a certificate was not issued by the subject of the one above it")
            if not certificate.caveats.is_within(above.caveats):
                raise ChainInvalid("a certificate allows more than the one above it")
        above = certificate
    last = chain.last
    names = (chain.user_key, *(bytes.fromhex(each.value.subject) for each in chain.links))
    root, *subjects = map(fingerprint_of, names)
    call_limits = tuple(
        CallLimit(blake3(each.text).digest(), each.value.caveats.calls_max)
        for each in chain.links
        if each.value.caveats.calls_max is not None
    )
    authority = Authority(root, subjects[-1], chain.agent_key, last.role, last.caveats, call_limits)
    return _Checked(authority, (root, *subjects))


def _check_revoked(chain: Chain, names: Iterable[Fingerprint], revocations: Revocations) -> None:
    for name in names:
        if name in revocations.revoked:
            raise Revoked("the user revoked a key of the chain", key=name.hex())
    for each in chain.links:
        generation = each.value.caveats.generation
        if generation is not None and generation < revocations.generation:
            raise Revoked(
                f"the certificate is of generation {generation}, and the user has begun {revocations.generation}",
                generation=generation,
            )


def _check_expired(chain: Chain, now_ms: int) -> None:
    for each in chain.links:
        end = each.value.caveats.expires_at_ms
        if end is not None and now_ms >= end:
            raise CertificateExpired(f"the certificate expired at {iso(end)}", expires_at=iso(end))
