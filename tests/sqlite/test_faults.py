"""Faults are told apart by SQLite's result code."""

import apsw
import pytest

from parley.core.errors import DatabaseCorrupt, InternalError, ServiceUnavailable
from parley.sqlite import ends_transaction, translate

UNAVAILABLE = {
    apsw.SQLITE_BUSY: ("busy", 1),
    apsw.SQLITE_BUSY_SNAPSHOT: ("busy", 1),
    apsw.SQLITE_LOCKED: ("busy", 1),
    apsw.SQLITE_FULL: ("disk_full", 5),
    apsw.SQLITE_IOERR: ("io_error", 5),
    apsw.SQLITE_IOERR_FSYNC: ("io_error", 5),
    apsw.SQLITE_CANTOPEN: ("cannot_open", 5),
    apsw.SQLITE_NOMEM: ("no_memory", 1),
    apsw.SQLITE_READONLY: ("read_only", 5),
    apsw.SQLITE_READONLY_CANTINIT: ("read_only", 5),
    apsw.SQLITE_PERM: ("read_only", 5),
    apsw.SQLITE_INTERRUPT: ("interrupted", 1),
}


def raised(code: int) -> apsw.Error:
    error = apsw.exception_for(code)
    assert isinstance(error, apsw.Error)
    return error


@pytest.mark.parametrize(("code", "expected"), UNAVAILABLE.items())
def test_a_passing_fault_is_service_unavailable_with_its_reason(code: int, expected: tuple[str, float]) -> None:
    typed = translate(raised(code))
    assert isinstance(typed, ServiceUnavailable)
    assert (typed.details["reason"], typed.retry_after_seconds) == expected
    assert typed.details["sqlite_code"] == code


@pytest.mark.parametrize("code", [apsw.SQLITE_CORRUPT, apsw.SQLITE_CORRUPT_VTAB, apsw.SQLITE_NOTADB])
def test_damage_is_database_corrupt(code: int) -> None:
    assert isinstance(translate(raised(code)), DatabaseCorrupt)


@pytest.mark.parametrize("code", [apsw.SQLITE_CONSTRAINT, apsw.SQLITE_ERROR, apsw.SQLITE_MISUSE, apsw.SQLITE_TOOBIG])
def test_every_other_result_is_a_fault_of_ours(code: int) -> None:
    assert isinstance(translate(raised(code)), InternalError)


def test_an_exception_without_a_result_is_told_by_its_class() -> None:
    class Injected(apsw.FullError):
        pass

    assert translate(Injected("by a VFS")).details["reason"] == "disk_full"


def test_faults_of_the_medium_end_the_transaction_and_those_of_one_statement_do_not() -> None:
    ending = (apsw.SQLITE_FULL, apsw.SQLITE_IOERR, apsw.SQLITE_NOMEM, apsw.SQLITE_CORRUPT, apsw.SQLITE_INTERRUPT)
    assert all(ends_transaction(raised(code)) for code in ending)
    assert not ends_transaction(raised(apsw.SQLITE_CONSTRAINT))
    assert not ends_transaction(raised(apsw.SQLITE_ERROR))
    assert not ends_transaction(ValueError())
