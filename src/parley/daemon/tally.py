"""What happens in a daemon's meshes and is worth a number or a line: counted here until the metrics take it over."""

from collections import Counter
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from parley.daemon.effects import Tell
from parley.daemon.inbox.receive import Received

RECONNECTS: Final = "parley_daemon_reconnects_total"
DECRYPT_FAILURES: Final = "parley_daemon_decrypt_failures_total"
DEDUPE: Final = "parley_daemon_dedupe_total"
HISTORY_PRUNED: Final = "parley_daemon_dedupe_history_pruned_total"
INVALID_INBOUND: Final = "parley_daemon_invalid_inbound_total"


class Tally:
    """Counters by the names of their metrics and the values of their labels."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, ...]] = Counter()

    def add(self, metric: str, *labels: str) -> None:
        """One more."""
        self._counts[metric, *labels] += 1

    def take(self) -> Counter[tuple[str, ...]]:
        """All that was counted since this was asked last."""
        counts, self._counts = self._counts, Counter()
        return counts


class MeshTally:
    """What one mesh adds to the tally, and to the log."""

    def __init__(self, tally: Tally, mesh: str, log: FilteringBoundLogger) -> None:
        self._tally = tally
        self._mesh = mesh
        self._log = log
        self._open = False
        self._lost_by: str | None = None
        """What ended the connection, until there is another."""

    def told(self, told: Tell) -> None:
        """The machine tells of something."""
        match told.kind:
            case "broker_status":
                self._log.info(told.kind, mesh=self._mesh, **told.data)
                self._status(str(told.data["status"]), told.data.get("code"))
            case "feature_negotiation_failed":
                self._log.warning(told.kind, mesh=self._mesh, **told.data)
            case "outbox_done" if told.data["duplicate"]:
                self._recognised(told.data)
            case _:
                pass

    def received(self, received: Received) -> None:
        """A delivery was stored, or was known already."""
        if received.waits:
            return
        if received.event is None:
            self._tally.add(DEDUPE, self._mesh, "in")
        elif received.event.kind == "decrypt_failed":
            self._tally.add(DECRYPT_FAILURES, self._mesh)

    def not_understood(self, problem: str) -> None:
        """The broker said something that is no frame."""
        self._tally.add(INVALID_INBOUND, self._mesh)
        self._log.warning("frame_not_understood", mesh=self._mesh, problem=problem[:200])

    def _status(self, status: str, code: int | None) -> None:
        if status == "open":
            if self._lost_by is not None:
                self._tally.add(RECONNECTS, self._mesh, self._lost_by)
            self._open, self._lost_by = True, None
        elif self._open:
            self._open, self._lost_by = False, str(code)

    def _recognised(self, done: dict[str, Any]) -> None:
        """The broker had the message from an earlier try."""
        self._tally.add(DEDUPE, self._mesh, "out")
        names = {name: done[name] for name in ("broker_message_id", "history_id")}
        if done["history_available"]:
            self._log.info("message_recognised", mesh=self._mesh, **names)
        else:
            self._tally.add(HISTORY_PRUNED, self._mesh)
            self._log.warning("message_history_pruned", mesh=self._mesh, **names)
