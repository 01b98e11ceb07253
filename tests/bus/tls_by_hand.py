"""A TLS 1.3 client that does what no library lets one do: it shows a certificate and signs with whichever key it likes.

Just enough of RFC 8446: one suite, one group, one kind of signature, and nothing of the server's is checked.
"""

import hashlib
import hmac
import os
import socket
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from parley.bus.tls_contexts import ALPN
from parley.bus.transport import Address
from tests.bus.wires import SECONDS

HANDSHAKE: Final = 22
DATA: Final = 23
_FOR_OLD_ROUTERS: Final = 20
"""A record that means nothing in this version."""
_EMPTY: Final = hashlib.sha256(b"").digest()


class Answer(NamedTuple):
    """What the server says, and of which kind it is."""

    kind: int
    content: bytes


def shown(address: Address, certificate: bytes, seed: bytes) -> Answer | None:
    """Shows this certificate, signs with this key, and takes the first answer; None if the server hangs up instead."""
    with socket.create_connection(address, SECONDS) as connection:
        connection.settimeout(SECONDS)
        return _Client(connection).run(certificate, Ed25519PrivateKey.from_private_bytes(seed))


class _Keys:
    """One direction of a connection."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(_expand(secret, "key", 16))
        self._iv = int.from_bytes(_expand(secret, "iv", 12))
        self._number = 0

    def seal(self, kind: int, content: bytes) -> bytes:
        head = bytes([DATA, 3, 3]) + _sized(b"", 2, len(content) + 17)
        return head + self._cipher.encrypt(self._nonce(), content + bytes([kind]), head)

    def open(self, head: bytes, body: bytes) -> Answer:
        inner = self._cipher.decrypt(self._nonce(), body, head).rstrip(b"\0")
        return Answer(inner[-1], inner[:-1])

    def _nonce(self) -> bytes:
        nonce = (self._iv ^ self._number).to_bytes(12)
        self._number += 1
        return nonce


class _Client:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._said = b""

    def run(self, certificate: bytes, key: Ed25519PrivateKey) -> Answer | None:
        own = X25519PrivateKey.generate()
        hello = _hello(own.public_key().public_bytes_raw())
        self._said = hello
        self._connection.sendall(bytes([HANDSHAKE, 3, 1]) + _sized(hello))
        _, server_hello = self._record()
        self._said += server_hello
        shared = own.exchange(X25519PublicKey.from_public_bytes(_key_share(server_hello)))
        handshake = _extract(_derive(_extract(bytes(32), bytes(32)), "derived", _EMPTY), shared)
        client, server = (_derive(handshake, f"{side} hs traffic", self._hash()) for side in "cs")
        self._take_flight(_Keys(server))
        after = _Keys(_derive(_extract(_derive(handshake, "derived", _EMPTY), bytes(32)), "s ap traffic", self._hash()))
        listed = _sized(certificate, 3) + _sized(b"")
        self._say(11, b"\0" + _sized(listed, 3))
        signed = b" " * 64 + b"TLS 1.3, client CertificateVerify\0" + self._hash()
        self._say(15, b"\x08\x07" + _sized(key.sign(signed)))
        self._say(20, hmac.digest(_expand(client, "finished", 32), self._hash(), "sha256"))
        self._connection.sendall(_Keys(client).seal(HANDSHAKE, self._flight))
        try:
            return after.open(*self._record())
        except ConnectionError:
            return None

    _flight = b""

    def _say(self, kind: int, content: bytes) -> None:
        message = bytes([kind]) + _sized(content, 3)
        self._flight += message
        self._said += message

    def _take_flight(self, keys: _Keys) -> None:
        """What the server says up to its ``Finished``, which is the last of it."""
        flight = b""
        while not _ends_finished(flight):
            flight += keys.open(*self._record()).content
        self._said += flight

    def _record(self) -> tuple[bytes, bytes]:
        while True:
            head = self._exactly(5)
            body = self._exactly(int.from_bytes(head[3:]))
            if head[0] != _FOR_OLD_ROUTERS:
                return head, body

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self._connection.recv(count - len(found))
            if not more:
                raise ConnectionResetError("the server hung up")
            found += more
        return found

    def _hash(self) -> bytes:
        return hashlib.sha256(self._said).digest()


def _hello(share: bytes) -> bytes:
    protocol = bytes([len(ALPN)]) + ALPN.encode()
    extensions = {
        43: b"\x02\x03\x04",
        10: _sized(b"\x00\x1d"),
        13: _sized(b"\x08\x07"),
        51: _sized(b"\x00\x1d" + _sized(share)),
        16: _sized(protocol),
    }
    listed = b"".join(kind.to_bytes(2) + _sized(content) for kind, content in extensions.items())
    body = b"\x03\x03" + os.urandom(32) + b"\0" + _sized(b"\x13\x01") + b"\x01\0" + _sized(listed)
    return b"\x01" + _sized(body, 3)


def _key_share(server_hello: bytes) -> bytes:
    """The server's key, the last thing in its extension of number 51."""
    at = 4 + 2 + 32 + 1 + 2 + 1 + 2
    while server_hello[at : at + 2] != b"\x00\x33":
        at += 4 + int.from_bytes(server_hello[at + 2 : at + 4])
    return server_hello[at + 8 : at + 40]


def _ends_finished(flight: bytes) -> bool:
    at, kind = 0, 0
    while at + 4 <= len(flight):
        kind = flight[at]
        at += 4 + int.from_bytes(flight[at + 1 : at + 4])
    return kind == 20 and at == len(flight)


def _sized(content: bytes, width: int = 2, size: int | None = None) -> bytes:
    return (len(content) if size is None else size).to_bytes(width) + content


def _extract(salt: bytes, secret: bytes) -> bytes:
    return hmac.digest(salt, secret, "sha256")


def _derive(secret: bytes, label: str, transcript: bytes) -> bytes:
    return _expand(secret, label, 32, transcript)


def _expand(secret: bytes, label: str, length: int, context: bytes = b"") -> bytes:
    about = _sized(b"", 2, length) + _sized(f"tls13 {label}".encode(), 1) + _sized(context, 1)
    return hmac.digest(secret, about + b"\x01", "sha256")[:length]
