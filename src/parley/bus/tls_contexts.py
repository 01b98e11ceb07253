"""How this machine speaks TLS: version 1.3, both sides with certificates, the user's key as the only root.

No name of a host is compared, since a machine of the bus has none: its key is its identity. ``peer_of`` reads that from
the certificate that OpenSSL has checked.

No connection can be resumed. A resumed one shows no certificate, so it would outlive the one that it began with. There
are no tickets, and whoever resumes all the same is refused.

``load_cert_chain`` wants files, and the key is to be in no other file than its own. So it reads two pipes, which hold
what was written to them until it is read, in memory of the kernel that nobody else can open.
"""

import os
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

from parley.bus.fingerprint import Fingerprint, fingerprint_of
from parley.bus.home import key_pem
from parley.bus.standing import Standing
from parley.bus.x509 import TlsCertificates, leaf_key
from parley.core import sealing
from parley.core.bus_errors import ChainInvalid, NoIdentity

ALPN: Final = "parley-bus/1"
"""What is spoken inside, so that no other program that has these certificates is taken for the bus."""


class Credentials(NamedTuple):
    """What a machine shows of itself."""

    agent_seed: bytes
    certificates: TlsCertificates

    @property
    def agent(self) -> Fingerprint:
        """Who shows it."""
        return fingerprint_of(sealing.public_key(self.agent_seed))


class TlsContexts(NamedTuple):
    """One context for each side of a connection."""

    accepting: ssl.SSLContext
    dialling: ssl.SSLContext


def credentials_of(standing: Standing, now_ms: int) -> Credentials:
    """What the machine may show now. Raises ``NoIdentity``, or what ``Standing.authority`` raises."""
    standing.authority(now_ms)
    if standing.agent_seed is None or standing.grant is None:
        raise NoIdentity("this machine has no key yet")
    return Credentials(standing.agent_seed, standing.grant.tls)


def make_contexts(credentials: Credentials) -> TlsContexts:
    """Raises ``ChainInvalid`` for a certificate of another key."""
    return TlsContexts(*(_context(side, credentials) for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)))


def peer_of(connection: ssl.SSLObject) -> Fingerprint:
    """Who is on the other side of a connection that OpenSSL has let through. Raises ``ChainInvalid``."""
    leaf = connection.getpeercert(binary_form=True)
    if leaf is None or connection.session_reused:
        raise ChainInvalid("the other side has shown no certificate")
    if connection.selected_alpn_protocol() != ALPN:
        raise ChainInvalid(f"the other side does not speak {ALPN}")
    return fingerprint_of(leaf_key(leaf))


def _context(side: int, credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.options |= ssl.OP_NO_TICKET
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    context.set_alpn_protocols([ALPN])
    context.load_verify_locations(cadata=credentials.certificates.root)
    with _in_memory(credentials.certificates.pem()) as chain, _in_memory(key_pem(credentials.agent_seed)) as key:
        try:
            context.load_cert_chain(chain, key)
        except OSError as error:  # an SSLError, or that OpenSSL could not go back in a pipe to look again
            raise ChainInvalid("the X.509 certificate is not for this machine's key") from error
    return context


@contextmanager
def _in_memory(data: bytes) -> Generator[str]:
    """A path that these bytes can be read from once. They are fewer than the least that a pipe holds."""
    readable, writable = os.pipe()
    try:
        with os.fdopen(writable, "wb") as file:
            file.write(data)
        yield f"/dev/fd/{readable}"
    finally:
        os.close(readable)
