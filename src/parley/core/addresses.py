"""What an address on the web is, and how far one reaches in running text.

The page asks the same questions in ``hub/page/js/markdown/urls.js``; a shared table of examples holds both to the same
answers.
"""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv6Address
from typing import Final
from unicodedata import category, normalize

from parley.core.limits import URL_CHARS_MAX

SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)
_RUN: Final = re.compile(
    r"[^\s<>\"`"
    r"\u0000-\u001f\u007f-\u009f"  # controls
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"  # invisible characters
    r"\u3000-\u3003\u3008-\u3011\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f"  # Chinese and Japanese punctuation
    rf"]{{1,{URL_CHARS_MAX + 1}}}"
)
_STRIPPED: Final = frozenset(".,;:!?'*_~\u00ab\u00bb\u2018\u2019\u201c\u201d\u2026\u2039\u203a")
"""Ends of sentences and of formatting; the later ones are typographic quotes and the ellipsis."""
_CLOSERS: Final = {")": "(", "]": "[", "}": "{"}
# A browser takes a backslash for a slash.
_AUTHORITY: Final = re.compile(r"https?://(?:[^/?#\\]*@)?+([^/?#\\@]+)", re.IGNORECASE)
_HOST_AND_PORT: Final = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]*))?")
_NO_HOST: Final = re.compile(
    r"[\x00- \x7f%:<>\[\]^|"
    r"\u3002"  # a dot to a browser, and to nobody else
    r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\ufffd]"  # invisible, or not readable
)
_CONTROL: Final = re.compile(r"[\x00-\x1f]| \Z")
"""A browser takes these out and goes on."""
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_IPV4: Final = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.|$)){4}")
_ENCODED: Final = "xn--"
_ENCODABLE: Final = re.compile(r"xn--[a-z0-9-]*[a-z0-9]")
_PORT_MAX: Final = 65_535


def host_of(address: str) -> str | None:
    """The host that a browser would call, in lower case, or None for what is not an http or https address."""
    found = None if _CONTROL.search(address) else _AUTHORITY.match(address)
    parts = None if found is None else _HOST_AND_PORT.fullmatch(found[1])
    if parts is None or int(parts[2] or 0) > _PORT_MAX:
        return None
    host = parts[1].lower()
    if host.startswith("["):
        return host[1:-1] if _is_ipv6(host[1:-1]) else None
    return host if _is_name(host) or _is_ipv4(host) else None


def address_at(text: str, at: int, *, in_brackets: bool = False) -> str | None:
    """The address that begins here, or None. Punctuation that ends the sentence is not part of it.

    Parentheses and brackets are part of it if they open inside it too. Inside the brackets of a link, the first closing
    bracket ends it.
    """
    run = _RUN.match(text, at) if SCHEME.match(text, at) else None
    if run is None:
        return None
    address = run[0].partition("]")[0] if in_brackets else run[0]
    if len(address) > URL_CHARS_MAX:
        return None
    address = address[: _without_tail(address)]
    return None if host_of(address) is None else address


def address_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where addresses stand in the text, whatever is around them."""
    at = 0
    while (found := SCHEME.search(text, at)) is not None:
        address = address_at(text, found.start())
        at = found.end() if address is None else found.start() + len(address)
        if address is not None:
            yield found.start(), at


def _without_tail(address: str) -> int:
    surplus = {closer: address.count(closer) - address.count(opener) for closer, opener in _CLOSERS.items()}
    length = len(address)
    while length and (address[length - 1] in _STRIPPED or surplus.get(address[length - 1], 0) > 0):
        length -= 1
        if address[length] in surplus:
            surplus[address[length]] -= 1
    return length


def _is_name(host: str) -> bool:
    """Whether it means the same to everybody: a browser would look for some other spelling of what this refuses."""
    if not host or _NO_HOST.search(host) or _ends_in_number(host):
        return False
    if not host.isascii() and not (host.isprintable() and normalize("NFKC", host) == normalize("NFC", host)):
        return False
    return all(map(_is_label, host.split(".")))


def _is_label(label: str) -> bool:
    """Whether it begins with a character of its own and, if it says that it is encoded, has something that could be."""
    if label.startswith(_ENCODED):
        return _ENCODABLE.fullmatch(label) is not None
    return not category(label[:1] or ".").startswith("M")


def _ends_in_number(host: str) -> bool:
    return _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None


def _is_ipv4(host: str) -> bool:
    return _IPV4.fullmatch(host) is not None


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return "%" not in text
