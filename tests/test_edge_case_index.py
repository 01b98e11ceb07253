"""The plan's edge cases and gates, the contract's tables, and the defects before ours: each has a test with a name.

``tests/edge_cases.toml`` holds them. A row is the item's text and the tests that show it, as ``path::test`` below
``tests``; where one test goes through many cases, ``path::test[text]`` is a case whose text is among its parameters.
Where a decision changed the answer, the row says so in ``changed``; what belongs elsewhere stands under ``elsewhere``.
"""

import ast
import functools
import tomllib
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
TABLE: dict[str, Any] = tomllib.loads((TESTS / "edge_cases.toml").read_text(encoding="utf-8"))
ROWS = [
    (section, item, tests)
    for part in ("part_x", "appendix_c", "gates", "defects", "mesh", "bus")
    for section, items in TABLE[part].items()
    for item, tests in items.items()
]


@functools.cache
def cases_in(path: str) -> dict[str, str]:
    """The tests in a file, those of classes included, each with the text of its parameters."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = "\n".join(ast.unparse(each) for each in node.decorator_list)
        elif isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = ""
    return found


@pytest.mark.parametrize(
    ("section", "item", "tests"), ROWS, ids=[f"{section}: {item}"[:80] for section, item, _ in ROWS]
)
def test_each_item_names_tests_that_exist(section: str, item: str, tests: list[str]) -> None:
    assert tests, f"{item} has no test"
    for each in tests:
        path, _, selected = each.partition("::")
        name, _, case = selected.removesuffix("]").partition("[")
        assert name in cases_in(path), each
        assert case in cases_in(path)[name], each


def test_every_part_of_the_plan_is_there() -> None:
    assert len(ROWS) >= 120
    assert set(TABLE["gates"]["hub"]) == set("ABCDEFGHIJ")
    assert {int(number) for number in TABLE["defects"]["hub"]} | {3, 21} == set(range(1, 22))


def test_every_table_of_the_mesh_contract_is_there() -> None:
    mesh = TABLE["mesh"]
    assert {int(number) for number in mesh["Asking again (the eleven rows)"]} == set(range(1, 12))
    assert set(mesh["Refusals of a daemon (phases)"]) == set("ABCD")
    assert set(mesh["Refusals of a broker (phases)"]) == {"Authentication", "B0", "B1", "B2", "B3"}
    assert {int(number) for number in mesh["Defects of brokers before"]} | {10} == set(range(1, 11))
    counts = {section: len(mesh[section]) for section in mesh}
    assert counts["Defects of sending before"] >= 12
    assert counts["Defects of receiving before"] >= 7
    assert counts["Negotiation"] >= 12


def test_every_case_weakness_criterion_and_probe_of_the_bus_is_there() -> None:
    bus = TABLE["bus"]
    assert {int(number) for part in ("Store: cases", "Bus: cases") for number in bus[part]} == set(range(1, 64))
    assert {int(number) for part in ("Store: weaknesses", "Bus: weaknesses") for number in bus[part]} == set(
        range(1, 25)
    )
    assert len(bus["Acceptance criteria"]) >= 9
    assert len(bus["Probes"]) >= 17


def test_changed_answers_belong_to_items_of_the_table() -> None:
    items = {item for _, item, _ in ROWS}
    assert set(TABLE["changed"]) <= items
