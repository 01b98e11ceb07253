"""The limiter: so many messages of a member in a window of time, and a retry costs nothing.

A message that was accepted is known by its id before it comes here. So a key is kept only for one that was counted and
then refused: its retry, which is all that is left to recognise, passes within the window without being counted again.
The counts are rows, since the brokers of one database share them.
"""

from collections.abc import Sequence
from typing import Final

from parley.broker.tx import Tx

_KEY: Final = "SELECT window_ms FROM rate_key WHERE member_id = ? AND client_message_id = ?"
_USED: Final = "SELECT used FROM rate_budget WHERE member_id = ? AND window_ms = ?"
_COUNT: Final = (
    "INSERT INTO rate_budget (member_id, window_ms, used) VALUES (?, ?, ?)"
    " ON CONFLICT (member_id, window_ms) DO UPDATE SET used = rate_budget.used + excluded.used"
)
_REMEMBER: Final = (
    "INSERT INTO rate_key (member_id, client_message_id, window_ms) VALUES (?, ?, ?)"
    " ON CONFLICT (member_id, client_message_id) DO UPDATE SET window_ms = excluded.window_ms"
)


Key = tuple[str, str]
"""A member and its id for a message."""


def consume_budget(tx: Tx, keys: Sequence[Key], window_ms: int, messages: int) -> list[int | None]:
    """Counts the messages. None for each that may pass, else after how many milliseconds there is budget again.

    The lock of the members' mesh is held, so nobody else counts meanwhile.
    """
    window = _window(tx, window_ms)
    members = list(dict.fromkeys(member_id for member_id, _ in keys))
    rows = tx.each(_USED, [(member_id, window) for member_id in members])
    used = {member_id: found[0][0] if found else 0 for member_id, found in zip(members, rows, strict=True)}
    added: dict[str, int] = {}
    waits: list[int | None] = []
    for (member_id, _), known in zip(keys, tx.each(_KEY, keys), strict=True):
        counted = known != [] and known[0][0] == window
        within = counted or used[member_id] < messages
        if within and not counted:
            used[member_id] += 1
            added[member_id] = added.get(member_id, 0) + 1
        waits.append(None if within else window + window_ms - tx.now_ms)
    tx.many(_COUNT, [(member_id, window, count) for member_id, count in added.items()])
    return waits


def remember_budget(tx: Tx, keys: Sequence[Key], window_ms: int) -> None:
    """The messages were counted and then refused."""
    window = _window(tx, window_ms)
    tx.many(_REMEMBER, [(*key, window) for key in keys])


def forget_windows(tx: Tx, window_ms: int) -> None:
    """Removes what no message can be compared with any more."""
    before = _window(tx, window_ms) - window_ms
    tx.run("DELETE FROM rate_budget WHERE window_ms < ?", before)
    tx.run("DELETE FROM rate_key WHERE window_ms < ?", before)


def _window(tx: Tx, window_ms: int) -> int:
    return tx.now_ms - tx.now_ms % window_ms
