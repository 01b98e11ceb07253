"""Saying once that a server serves, or why it does not: to a person, a program, or the process that detached it."""

import json as json_text
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from parley.cli.call import Call
from parley.cli.output import error_payload
from parley.core.errors import ParleyError


class Announcer:
    """``words`` makes the line for a person of what the server reports; ``about`` is part of each failure's report."""

    def __init__(self, call: Call, report_fd: int | None, words: Callable[[dict[str, Any]], str]) -> None:
        self._call = call
        self._report_fd = report_fd
        self._words = words
        self.about: dict[str, Any] = {}

    def ready(self, report: dict[str, Any]) -> None:
        """It serves."""
        if self._reported(report):
            return
        if self._call.json:
            self._call.out.data(report)
        else:
            self._call.out.line(self._words(report))
        sys.stdout.flush()

    def failed(self, error: ParleyError) -> None:
        """It does not."""
        payload = {**error_payload(error), **self.about, "reason": error.details.get("reason", str(error))}
        self._reported(payload)
        if self._call.json:
            sys.stderr.write(json_text.dumps(payload, ensure_ascii=False) + "\n")
        else:
            self._call.out.error(error)

    def _reported(self, payload: dict[str, Any]) -> bool:
        """Tells the process that detached this one, if there is one. Should it be gone, the server goes on."""
        descriptor, self._report_fd = self._report_fd, None
        if descriptor is None:
            return False
        with suppress(BrokenPipeError), os.fdopen(descriptor, "w", encoding="utf-8") as pipe:
            pipe.write(json_text.dumps(payload) + "\n")
        return True
