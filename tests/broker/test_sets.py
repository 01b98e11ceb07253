"""Statements for many rows: what becomes of the text, beside what the conformance suite shows of their effect."""

import pytest

from parley.broker.sets import change_for_each, columns_of, select_for_each

GIVEN = "unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS given (v0, v1, n)"
TYPES = ("text", "bigint")


def test_values_travel_mark_by_mark_with_the_type_of_the_first_that_is_there() -> None:
    columns, types = columns_of([("a", None, None), ("b", 2, None), ("c", 3, None)])
    assert columns == (["a", "b", "c"], [None, 2, 3], [None, None, None])
    assert types == ("text", "bigint", None)


def test_a_query_is_run_beside_each_given_row() -> None:
    text = select_for_each("SELECT c FROM t WHERE a = ? LIMIT ?", TYPES)
    inner = "SELECT c FROM t WHERE a = given.v0 LIMIT given.v1"
    assert text == f"SELECT given.n, found.* FROM {GIVEN} CROSS JOIN LATERAL ({inner}) AS found"


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        (
            "INSERT INTO t (a, b) VALUES (abs(?), 'x', ?) RETURNING a",
            f"INSERT INTO t (a, b) SELECT abs(given.v0), 'x', given.v1 FROM {GIVEN} ORDER BY given.n RETURNING a",
        ),
        (
            "UPDATE t SET a = ? WHERE b = ? RETURNING b",
            f"UPDATE t SET a = given.v0 FROM {GIVEN} WHERE b = given.v1 RETURNING b",
        ),
        ("DELETE FROM t WHERE a = ? AND b = ?", f"DELETE FROM t USING {GIVEN} WHERE a = given.v0 AND b = given.v1"),
    ],
    ids=["insert", "update", "delete"],
)
def test_a_change_takes_its_values_from_the_given_rows(sql: str, text: str) -> None:
    assert change_for_each(sql, TYPES) == text


def test_a_mark_that_no_row_has_a_value_for_fits_a_column_of_any_type() -> None:
    assert change_for_each("INSERT INTO t (a) VALUES (?)", (None,)) == (
        "INSERT INTO t (a) SELECT NULL FROM unnest(%s::text[]) WITH ORDINALITY AS given (v0, n) ORDER BY given.n"
    )


def test_a_percent_sign_of_a_statement_stays_one() -> None:
    assert "a LIKE 'x%%'" in select_for_each("SELECT b FROM t WHERE a LIKE 'x%' AND c = ?", ("text",))


def test_an_insert_whose_brackets_do_not_close_is_no_statement() -> None:
    with pytest.raises(ValueError, match="given"):
        change_for_each("INSERT INTO t (a) VALUES (?", ("text",))
