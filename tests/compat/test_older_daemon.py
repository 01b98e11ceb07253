"""A client may be newer than the daemon that it talks to: what a daemon of an earlier release answered can be read."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parley.daemon.http.table import ENDPOINTS

ANSWERS: list[dict[str, Any]] = [
    answer
    for path in sorted((Path(__file__).parent.parent / "fixtures" / "answers").glob("daemon_*.json"))
    for answer in json.loads(path.read_text())
]
ROUTES = {f"{each.method} {each.path}": each for each in ENDPOINTS}


@pytest.mark.parametrize("found", ANSWERS, ids=lambda found: f"{found['route']} {found['status']}")
def test_an_answer_of_an_older_daemon_can_be_read(found: dict[str, Any]) -> None:
    answer = ROUTES[found["route"]].answers[found["status"]]
    msgspec.json.decode(json.dumps(found["answer"]), type=answer)
