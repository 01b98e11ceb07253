"""X.509 certificates for mutual TLS: the user's key as root, and a leaf for each agent that the user lets in.

OpenSSL then refuses other users' agents by itself, before a byte of theirs is read. A leaf proves the team and the key
and nothing else: what its agent may do, and whether it was revoked, its chain says.

The root is the same bytes whenever it is made from the same key, so any machine of a user can hold any copy of it.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from blake3 import blake3
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parley.bus.fingerprint import fingerprint_of
from parley.core import limits
from parley.core.bus_errors import ChainInvalid

DER_BYTES_MAX: Final = 4_096
"""Several times what a certificate of ours has."""
_BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)
_SKEW: Final = timedelta(days=1)
"""A machine whose clock is behind must not refuse what was issued a moment ago."""
_SERIAL_BYTES: Final = 19


class TlsCertificates(NamedTuple):
    """A leaf and the root that it is checked against, as DER."""

    leaf: bytes
    root: bytes

    def pem(self) -> bytes:
        """Both as PEM, the leaf first, as ``load_cert_chain`` takes them."""
        loaded = map(x509.load_der_x509_certificate, self)
        return b"".join(each.public_bytes(Encoding.PEM) for each in loaded)


def make_certificates(user_seed: bytes, agent_key: bytes, *, issued_at_ms: int, expires_at_ms: int) -> TlsCertificates:
    """The leaf for an agent's public key, signed by the user's, and the user's root."""
    user = Ed25519PrivateKey.from_private_bytes(user_seed)
    user_key = user.public_key()
    root_name = _name(user_key)
    agent = Ed25519PublicKey.from_public_bytes(agent_key)
    last = _time(limits.TIME_MS_MAX)
    root = (
        _builder(user_key, root_name, root_name, _serial(b"root", user_key.public_bytes_raw()), _BEGINNING, last)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    issued, expires = _time(issued_at_ms) - _SKEW, _time(expires_at_ms)
    serial = _serial(agent_key, issued_at_ms.to_bytes(8), expires_at_ms.to_bytes(8))
    leaf = (
        _builder(agent, _name(agent), root_name, serial, issued, expires)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(user_key), critical=False)
    )
    return TlsCertificates(*(each.sign(user, None).public_bytes(Encoding.DER) for each in (leaf, root)))


def check_certificates(certificates: TlsCertificates, *, user_key: bytes, agent_key: bytes) -> None:
    """Raises ``ChainInvalid`` unless these are the agent's leaf and the user's root, both signed by the user."""
    try:
        leaf, root = map(x509.load_der_x509_certificate, certificates)
        fits = _raw_key(leaf) == agent_key and _raw_key(root) == user_key
        leaf.verify_directly_issued_by(root)
        root.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise ChainInvalid("the X.509 certificates cannot be read, or the user did not sign them") from error
    if not fits:
        raise ChainInvalid("the X.509 certificates are for other keys than the chain")


def leaf_key(leaf: bytes) -> bytes:
    """The public key of a certificate that somebody has checked. Raises ``ChainInvalid`` if it is not of our kind."""
    try:
        key = _raw_key(x509.load_der_x509_certificate(leaf))
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise ChainInvalid("the X.509 certificate cannot be read") from error
    if key is None:
        raise ChainInvalid("the X.509 certificate is not for an ed25519 key")
    return key


def _raw_key(certificate: x509.Certificate) -> bytes | None:
    key = certificate.public_key()
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None


def _builder(
    key: Ed25519PublicKey, subject: x509.Name, issuer: x509.Name, serial: int, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(key: Ed25519PublicKey) -> x509.Name:
    """The fingerprint, which is as long as a common name may be."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, fingerprint_of(key.public_bytes_raw()).hex())])


def _serial(*parts: bytes) -> int:
    """Positive, the same for the same certificate, and another one for any other."""
    return int.from_bytes(blake3(b"".join(parts)).digest()[:_SERIAL_BYTES]) | 1


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC)
