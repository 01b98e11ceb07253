"""The tree of errors and the registry that is made from it."""

import pytest

from parley.core import errors
from parley.core.errors import ERRORS, ParleyError
from parley.core.exits import Exit


@pytest.mark.parametrize("code", ERRORS)
def test_each_code_says_what_happened_and_what_to_do(code: str) -> None:
    kind = ERRORS[code]
    assert kind.code == code == code.upper()
    assert kind.hint
    assert kind.__doc__
    assert isinstance(kind.exit_code, Exit)


@pytest.mark.parametrize("code", [code for code, kind in ERRORS.items() if kind.on_wire])
def test_what_crosses_the_wire_has_a_status_that_agrees_with_its_branch(code: str) -> None:
    kind = ERRORS[code]
    if issubclass(kind, errors.Refused):
        assert 400 <= kind.status < 500
        assert not kind.transient
    elif issubclass(kind, errors.Unavailable):
        assert kind.status in (429, 502, 503, 507)
    else:
        assert kind.status == 500


def test_every_class_of_the_module_is_in_the_tree_of_its_docstring() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ParleyError)]
    assert errors.__doc__ is not None
    for each in classes:
        assert each.__name__ in errors.__doc__


def test_a_taken_code_cannot_be_used_again() -> None:
    with pytest.raises(TypeError, match="error code NOT_FOUND is taken by NotFound"):
        type("Another", (ParleyError,), {"code": "NOT_FOUND"})
    assert ERRORS["NOT_FOUND"] is errors.NotFound


def test_a_version_conflict_carries_both_versions() -> None:
    error = errors.VersionConflict("msg_1", expected=2, current=4)
    assert error.details == {"expected": 2, "current": 4, "current_version": 4, "message_id": "msg_1"}
    assert str(error) == "Version conflict for message msg_1: expected 2, current 4"


def test_transient_errors_say_when_to_come_back() -> None:
    assert errors.RateLimited(limit=5, retry_after=0.25).retry_after_seconds == 0.25
    assert errors.ServiceUnavailable("full", reason="disk_full", retry_after=5).retry_after_seconds == 5
    assert errors.ShuttingDown().retry_after_seconds == 10
    assert errors.ShuttingDown().transient
    assert not errors.DatabaseCorrupt("damaged").transient
    assert errors.InternalError().message == "Internal error"
    assert errors.MethodNotAllowed("PUT", ["GET"]).details == {"allow": ["GET"]}


def test_exit_codes_are_distinct_and_start_refusals_stand_between_20_and_29() -> None:
    assert {int(code) for code in Exit} == {0, 1, 2, 3, 4, 5, 10, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}
    assert all(code.meaning for code in Exit)
    assert errors.VersionConflict.exit_code == 2
    assert errors.MissingAuth.exit_code == errors.InvalidAuth.exit_code == 4
    assert errors.WriterLockHeld.exit_code == 10
