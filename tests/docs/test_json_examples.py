"""The JSON in the documents is what the program reads and writes."""

import importlib
import json
from typing import Any

import msgspec
import pytest

from tests.docs.markdown import Block, blocks, document

EXAMPLES = [block for block in blocks(document("docs/protocol.md")) if block.language == "json"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda block: block.note.rpartition(".")[2])
def test_an_example_of_the_protocol_is_of_the_type_it_is_said_to_be(example: Block) -> None:
    kind, _, dotted = example.note.partition(": ")
    assert kind == "example", "each JSON block names its struct in a comment above it"
    module, _, name = dotted.rpartition(".")
    decoded = msgspec.json.decode(example.text, type=getattr(importlib.import_module(module), name))
    assert unknown_members(json.loads(example.text), msgspec.to_builtins(decoded)) == []


def test_a_member_that_does_not_exist_is_found() -> None:
    """Positive control."""
    assert unknown_members({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}) == ["a[0].c"]


def test_the_protocol_has_an_example_of_each_side() -> None:
    assert {block.note.rpartition(".")[0] for block in EXAMPLES} == {
        "example: parley.wire.answers",
        "example: parley.wire.events",
        "example: parley.wire.requests",
        "example: parley.wire.server_file",
    }


@pytest.mark.parametrize("block", [block for block in blocks(document("docs/cli-json.md")) if block.language == "json"])
def test_json_of_the_command_line_is_json(block: Block) -> None:
    assert json.loads(block.text)


def unknown_members(shown: Any, real: Any, path: str = "") -> list[str]:
    """What is shown but is not in, or differs from, the value as the program writes it."""
    if isinstance(shown, dict) and isinstance(real, dict):
        return [
            found
            for key, value in shown.items()
            for found in unknown_members(value, real.get(key, ...), f"{path}.{key}".lstrip("."))
        ]
    if isinstance(shown, list) and isinstance(real, list) and len(shown) == len(real):
        pairs = enumerate(zip(shown, real, strict=True))
        return [found for index, pair in pairs for found in unknown_members(*pair, f"{path}[{index}]")]
    return [] if shown == real else [path]
