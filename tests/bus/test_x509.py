"""Mutual TLS by OpenSSL itself, over loopback: the user's agents reach each other, and nobody else reaches them."""

import socket
import ssl
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from parley.bus import Caveats
from parley.bus.enrolment import issue_grant
from parley.bus.x509 import TlsCertificates, make_certificates
from parley.core.clock import SystemClock
from parley.core.sealing import public_key
from tests.bus.agents import ADA, BOB, DAY, NOW, STRANGER, USER

SECONDS: Final = 30.0


class Side(NamedTuple):
    """What one side found: the other's certificate, or why there is none."""

    peer: bytes | None
    refusal: str | None


def certificates(seed: bytes, user: bytes = USER, *, ended: bool = False) -> TlsCertificates:
    now_ms = SystemClock().now_ms()
    issued = now_ms - 10 * DAY if ended else now_ms
    return make_certificates(user, public_key(seed), issued_at_ms=issued, expires_at_ms=issued + 5 * DAY)


def context(folder: Path, seed: bytes, own: TlsCertificates, trusted: bytes, *, server: bool) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # the key is what counts, and is compared by whoever dials
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT  # which newer versions of Python ask for by themselves
    made.load_verify_locations(cadata=trusted)
    key = Ed25519PrivateKey.from_private_bytes(seed)
    file = folder / f"{seed.hex()[:4]}-{server}.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + own.pem())
    made.load_cert_chain(file)
    return made


def meet(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[Side, Side]:
    """Lets the two shake hands and say a byte each; what each of them found."""
    found: list[Side] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SECONDS)

        def serve() -> None:
            accepted, _ = listener.accept()
            found.append(_greet(accepted, server, server_side=True))

        thread = Thread(target=serve)
        thread.start()
        dialled = socket.create_connection(listener.getsockname(), SECONDS)
        other = _greet(dialled, client, server_side=False)
        thread.join(SECONDS)
    return found[0], other


def _greet(plain: socket.socket, tls: ssl.SSLContext, *, server_side: bool) -> Side:
    plain.settimeout(SECONDS)
    with plain:
        try:
            with tls.wrap_socket(plain, server_side=server_side) as wrapped:
                wrapped.sendall(b"!")
                if wrapped.recv(1) != b"!":
                    return Side(None, "closed")
                return Side(wrapped.getpeercert(binary_form=True), None)
        except OSError as error:
            return Side(None, type(error).__name__)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def bob() -> TlsCertificates:
    return certificates(BOB)


def met(
    folder: Path, client_seed: bytes, client: TlsCertificates, *, trusted_by_client: bytes, bob: TlsCertificates
) -> tuple[Side, Side]:
    """Somebody dials Bob, who trusts his user's root alone."""
    return meet(
        context(folder, BOB, bob, bob.root, server=True),
        context(folder, client_seed, client, trusted_by_client, server=False),
    )


def test_two_agents_of_one_user_see_each_others_certificates(folder: Path, bob: TlsCertificates) -> None:
    ada = certificates(ADA)
    assert met(folder, ADA, ada, trusted_by_client=ada.root, bob=bob) == (Side(ada.leaf, None), Side(bob.leaf, None))


def test_another_users_agent_is_refused_by_the_one_it_dials(folder: Path, bob: TlsCertificates) -> None:
    foreign = certificates(ADA, STRANGER)
    server, client = met(folder, ADA, foreign, trusted_by_client=certificates(ADA).root, bob=bob)
    assert server == Side(None, "SSLCertVerificationError")
    assert client.peer is None


def test_another_users_agent_is_refused_by_the_one_that_dials(folder: Path, bob: TlsCertificates) -> None:
    server, client = met(folder, ADA, certificates(ADA), trusted_by_client=certificates(ADA, STRANGER).root, bob=bob)
    assert client == Side(None, "SSLCertVerificationError")
    assert server.peer is None


def test_a_leaf_that_has_ended_is_refused(folder: Path, bob: TlsCertificates) -> None:
    ada = certificates(ADA, ended=True)
    server, _ = met(folder, ADA, ada, trusted_by_client=ada.root, bob=bob)
    assert server == Side(None, "SSLCertVerificationError")


def test_a_leaf_lets_nobody_else_in(folder: Path, bob: TlsCertificates) -> None:
    """An agent that signs a leaf with its own key as if that were a root: OpenSSL sees that it is none."""
    own = certificates(ADA)
    under_ada = make_certificates(
        ADA, public_key(STRANGER), issued_at_ms=SystemClock().now_ms(), expires_at_ms=SystemClock().now_ms() + DAY
    )
    chained = TlsCertificates(under_ada.leaf, own.leaf)
    server, _ = met(folder, STRANGER, chained, trusted_by_client=own.root, bob=bob)
    assert server == Side(None, "SSLCertVerificationError")


def test_a_certificate_without_its_key_cannot_be_used(folder: Path) -> None:
    with pytest.raises(ssl.SSLError):
        context(folder, STRANGER, certificates(ADA), certificates(ADA).root, server=False)


def test_a_root_is_the_same_whenever_it_is_made() -> None:
    one = issue_grant(USER, public_key(ADA), role="a", caveats=Caveats(), now_ms=NOW).tls
    other = issue_grant(USER, public_key(BOB), role="b", caveats=Caveats(expires_at_ms=NOW + DAY), now_ms=NOW + 5).tls
    assert one.root == other.root
    assert one.leaf != other.leaf
