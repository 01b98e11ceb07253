"""The limiter: so many messages of a member in a window of time, and a retry costs nothing.

A message that was accepted is known by its id before it comes here. So a key is kept only for one that was counted and
then refused: its retry, which is all that is left to recognise, passes within the window without being counted again.
The counts are rows, since the brokers of one database share them.
"""

from typing import Final

from parley.broker.tx import Tx

_KEY: Final = "SELECT window_ms FROM rate_key WHERE member_id = ? AND client_message_id = ?"
_COUNT: Final = (
    "INSERT INTO rate_budget (member_id, window_ms, used) VALUES (?, ?, 1)"
    " ON CONFLICT (member_id, window_ms) DO UPDATE SET used = rate_budget.used + 1 WHERE rate_budget.used < ?"
)
_REMEMBER: Final = (
    "INSERT INTO rate_key (member_id, client_message_id, window_ms) VALUES (?, ?, ?)"
    " ON CONFLICT (member_id, client_message_id) DO UPDATE SET window_ms = excluded.window_ms"
)


def consume_budget(tx: Tx, member_id: str, client_message_id: str, *, window_ms: int, messages: int) -> int | None:
    """Counts the message. None when it may pass, else after how many milliseconds there is budget again."""
    window = _window(tx, window_ms)
    known = tx.one(_KEY, member_id, client_message_id)
    if known is not None and known[0] == window:
        return None
    if tx.run(_COUNT, member_id, window, messages):
        return None
    return window + window_ms - tx.now_ms


def remember_budget(tx: Tx, member_id: str, client_message_id: str, *, window_ms: int) -> None:
    """The message was counted and then refused."""
    tx.run(_REMEMBER, member_id, client_message_id, _window(tx, window_ms))


def forget_windows(tx: Tx, window_ms: int) -> None:
    """Removes what no message can be compared with any more."""
    before = _window(tx, window_ms) - window_ms
    tx.run("DELETE FROM rate_budget WHERE window_ms < ?", before)
    tx.run("DELETE FROM rate_key WHERE window_ms < ?", before)


def _window(tx: Tx, window_ms: int) -> int:
    return tx.now_ms - tx.now_ms % window_ms
