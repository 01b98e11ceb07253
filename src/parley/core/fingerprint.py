"""The request fingerprint: two requests with one idempotency key are the same request iff their fingerprints are equal.

``sha256(version ␀ kind ␀ ref ␀ reply_to ␀ priority ␀ meta ␀ body_hash)``: all UTF-8, ``meta`` as canonical JSON (the
empty object is the empty text), ``body_hash`` the 64 lower-case hexadecimal characters of the body's SHA-256. Since the
parts are separated by NUL, none may contain one; control characters are refused before hashing.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from parley.core.canonical import canonical_json
from parley.core.errors import InvalidInput

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")
PREFIX_BYTES = 8
"""How much of a fingerprint a refusal shows: enough to compare, too little to search for the content."""


def request_fingerprint(
    *,
    kind: str,
    ref: str,
    body: bytes,
    reply_to: str = "",
    priority: str = "",
    meta: Mapping[str, object] | None = None,
    version: str = "1",
) -> bytes:
    """The 32-byte fingerprint. Raises ``InvalidInput`` when a part holds a control character."""
    parts = (version, kind, ref, reply_to, priority)
    if _CONTROLS.search("".join(parts)):
        names = ("version", "kind", "ref", "reply_to", "priority")
        name = next(name for name, part in zip(names, parts, strict=True) if _CONTROLS.search(part))
        raise InvalidInput(f"{name} must not contain control characters", field=name)
    meta_text = canonical_json(dict(meta)) if meta else b""
    body_hash = hashlib.sha256(body).hexdigest().encode("ascii")
    return hashlib.sha256(b"\0".join(("\0".join(parts).encode(), meta_text, body_hash))).digest()


def write_fingerprint(
    operation: str, target: str, fields: Mapping[str, object], content: str = "", *, reply_to: str = ""
) -> bytes:
    """The fingerprint of a write to a hub: the operation, what it acts on, who asks, and what it says.

    A field that is None was not given. Raises ``InvalidInput`` as ``request_fingerprint`` does.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    return request_fingerprint(kind=operation, ref=target, reply_to=reply_to, meta=given, body=content.encode())


def message_fingerprint(topic_id: str, sender: str, content: str, reply_to: str | None) -> bytes:
    """The fingerprint of posting a message. ``topic_id`` is what the request names: the topic's id, or its task's."""
    return write_fingerprint("message.create", topic_id, {"sender": sender}, content, reply_to=reply_to or "")


def fingerprint_prefix(fingerprint: bytes) -> str:
    """The first 8 bytes in hexadecimal, as error details show them."""
    return fingerprint[:PREFIX_BYTES].hex()
