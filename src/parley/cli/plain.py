"""Structs as plain values, for the JSON that commands print."""

from typing import Any

import msgspec


def plain(value: object) -> Any:
    """Dictionaries, lists, strings and numbers of what a client or a query answered."""
    return msgspec.to_builtins(value)
