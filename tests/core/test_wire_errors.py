"""Errors that another process told of."""

import json
import subprocess
import sys

from parley.core.errors import NotFound
from parley.core.registry import registry
from parley.core.wire_errors import UnknownRefusal, retold


def test_every_code_is_known_to_a_process_that_raises_none_of_them_itself() -> None:
    program = (
        "import json, sys; from parley.core.wire_errors import retold;"
        "told = [retold('no', code=code, status=status, details={}) for code, status in json.load(sys.stdin)];"
        "print(json.dumps([[type(each).__name__, each.code, each.status] for each in told]))"
    )
    codes = [(each.code, each.status) for each in registry().errors]
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(codes), capture_output=True, text=True, check=True
    )
    assert [(code, status) for _, code, status in json.loads(done.stdout)] == codes
    assert UnknownRefusal.__name__ not in [name for name, _, _ in json.loads(done.stdout)]


def test_what_was_said_is_kept() -> None:
    error = retold("gone", code="NOT_FOUND", status=404, details={"id": "x"}, hint="look elsewhere")
    assert isinstance(error, NotFound)
    assert (str(error), error.details, error.hint) == ("gone", {"id": "x"}, "look elsewhere")
    assert NotFound.hint != "look elsewhere"


def test_a_code_of_a_newer_version_keeps_its_code_and_kind() -> None:
    later = retold("busy", code="TOO_HOT", status=503, details={}, retry_after=2.0)
    assert isinstance(later, UnknownRefusal)
    assert (later.code, later.status, later.transient, later.retry_after_seconds) == ("TOO_HOT", 503, True, 2.0)
    assert not retold("no", code="TOO_COLD", status=400, details={}).transient
