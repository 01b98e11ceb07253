"""The plan's edge cases, gates and the defects before ours: each has a test that is named in ``tests/edge_cases.toml``.

A row is the item's text and the tests that show it, as ``path::test`` below ``tests``. Where a decision changed the
answer, the row says so in ``changed``; what belongs to the page or the docs stands under ``elsewhere``.
"""

import ast
import functools
import tomllib
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent
TABLE: dict[str, Any] = tomllib.loads((TESTS / "edge_cases.toml").read_text(encoding="utf-8"))
ROWS = [
    (section, item, tests)
    for part in ("part_x", "appendix_c", "gates", "defects")
    for section, items in TABLE[part].items()
    for item, tests in items.items()
]


@functools.cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests in a file, those of classes included."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name if not isinstance(node, ast.Assign) else ast.unparse(node.targets[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign)
    )


@pytest.mark.parametrize(
    ("section", "item", "tests"), ROWS, ids=[f"{section}: {item}"[:80] for section, item, _ in ROWS]
)
def test_each_item_names_tests_that_exist(section: str, item: str, tests: list[str]) -> None:
    assert tests, f"{item} has no test"
    for each in tests:
        path, _, name = each.partition("::")
        assert name in names_in(path), each


def test_every_part_of_the_plan_is_there() -> None:
    assert len(ROWS) >= 120
    assert set(TABLE["gates"]["hub"]) == set("ABCDEFGHIJ")
    assert {int(number) for number in TABLE["defects"]["hub"]} | {3, 21} == set(range(1, 22))


def test_changed_answers_belong_to_items_of_the_table() -> None:
    items = {item for _, item, _ in ROWS}
    assert set(TABLE["changed"]) <= items
