"""Addresses as people write them: ``HOST:PORT``, or ``[ADDRESS]:PORT``."""

import re
from typing import Final

from parley.bus.transport import Address
from parley.core.errors import InvalidInput

_ADDRESS: Final = re.compile(r"(?:\[(?P<address>[^\s\]]+)\]|(?P<host>[^\s:\[\]]{1,255})):(?P<port>[0-9]{1,5})")
_PORT_MAX: Final = 65_535


def parse_address(text: str) -> Address:
    """Raises ``InvalidInput`` for what is none."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) <= _PORT_MAX:
        raise InvalidInput(f"{text!r} is no HOST:PORT", field="address")
    return Address(found["address"] or found["host"], int(found["port"]))


def show_address(address: Address) -> str:
    """The text that ``parse_address`` reads."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
