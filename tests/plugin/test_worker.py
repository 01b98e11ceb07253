"""The conversation with a worker, without a sandbox around it."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parley.plugin import Message
from parley.plugin.contract import ERROR_CHARS_MAX, Task
from parley.plugin.worker import converse


def talk(
    tmp_path: Path, source: str, *contents: str, function: str = "enrich", output_bytes: int = 100_000
) -> list[Any]:
    """What a worker answers to these messages, after the two answers that it is there and has loaded the plugin."""
    file = tmp_path / "own_plugin_under_test.py"
    file.write_text(source)
    task = Task(file.stem, str(file), function, {"word": "config"}, output_bytes)
    lines = [msgspec.json.encode(task)]
    lines += [
        msgspec.json.encode(Message(f"msg_{n}", "topic_1", "ch_1", "ann", content, 1, "now"))
        for n, content in enumerate(contents)
    ]
    answers = io.BytesIO()
    converse(io.BytesIO(b"\n".join(lines) + b"\n"), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def clean_imports(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A worker loads one plugin and ends; here it has to be undone."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    sys.modules.pop("own_plugin_under_test", None)


def test_each_message_has_one_answer_in_order(tmp_path: Path) -> None:
    source = (
        "from parley.plugin import find, mark\n"
        "def enrich(message, config):\n"
        "    return [mark(match, config['word']) for match in find('[A-Z]', message)]\n"
    )
    answers = talk(tmp_path, source, "a B", "none", "CD")
    assert [answer["number"] for answer in answers] == [0, 1, 2, 3, 4]
    assert answers[2]["results"] == [{"kind": "config", "span": {"start": 2, "end": 3}, "data": {}}]
    assert answers[3]["results"] == []
    assert len(answers[4]["results"]) == 2


@pytest.mark.parametrize(
    "body",
    [
        "return [{'kind': 'k'}]",
        "return ({'kind': 'k'},)",
        "yield {'kind': 'k'}",
        "return iter([{'kind': 'k'}])",
    ],
)
@pytest.mark.parametrize("head", ["def", "async def"])
def test_every_natural_way_to_return_is_accepted(tmp_path: Path, head: str, body: str) -> None:
    answers = talk(tmp_path, f"{head} enrich(message, config):\n    {body}\n", "x")
    assert answers[2]["results"] == [{"kind": "k"}]


@pytest.mark.parametrize("head", ["def", "async def"])
def test_nothing_is_an_empty_list(tmp_path: Path, head: str) -> None:
    assert talk(tmp_path, f"{head} enrich(message, config): pass\n", "x")[2]["results"] == []


@pytest.mark.parametrize("value", ["'text'", "b'text'", "{'kind': 'k'}", "3", "True", "object()"])
def test_anything_but_a_list_is_told(tmp_path: Path, value: str) -> None:
    answers = talk(tmp_path, f"def enrich(message, config): return {value}\n", "x")
    assert answers[2]["error"].startswith("TypeError: enrich() must return a list, not ")


def test_a_single_result_is_told(tmp_path: Path) -> None:
    source = "from parley.plugin import Enrichment, Span\ndef enrich(m, c): return Enrichment('k', Span(0, 1))\n"
    assert "must return a list, not Enrichment" in talk(tmp_path, source, "x")[2]["error"]


def test_what_json_cannot_hold_is_told(tmp_path: Path) -> None:
    answers = talk(tmp_path, "def enrich(message, config): return [object()]\n", "x")
    assert "TypeError: Encoding objects of type object is unsupported" in answers[2]["error"]
    answers = talk(tmp_path, "def enrich(message, config): return ['\\udcff']\n", "x")
    assert "surrogates not allowed" in answers[2]["error"]


def test_an_endless_generator_comes_to_an_end(tmp_path: Path) -> None:
    source = "def enrich(message, config):\n    while True: yield {}\n"
    assert len(talk(tmp_path, source, "x")[2]["results"]) == 501
    source = "async def enrich(message, config):\n    while True: yield {}\n"
    assert len(talk(tmp_path, source, "x")[2]["results"]) == 501


def test_a_failure_is_the_answer_to_its_message_alone(tmp_path: Path) -> None:
    source = "def enrich(message, config):\n    return [int(message.content_raw)]\n"
    answers = talk(tmp_path, source, "1", "two", "3")
    assert (answers[2]["results"], answers[4]["results"]) == ([1], [3])
    assert answers[3]["error"].startswith("ValueError: invalid literal for int() with base 10: 'two' (")
    assert answers[3]["error"].endswith("own_plugin_under_test.py, line 2, in enrich)")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("raise ValueError('x' * 100_000)", "ValueError: xxx"),
        ("raise ValueError('\\udcff')", "ValueError: \\udcff"),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})", "Odd, whose text cannot be shown"),
        ("enrich(message, config)", "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_every_exception_is_told_in_a_line(tmp_path: Path, statement: str, told: str) -> None:
    answers = talk(tmp_path, f"def enrich(message, config):\n    {statement}\n", "x", "y")
    assert answers[2]["error"].startswith(told)
    assert len(answers[2]["error"]) <= ERROR_CHARS_MAX + len(told)
    assert "error" in answers[3]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise RuntimeError('at once')\n", "RuntimeError: at once"),
        ("def enrich(:\n", "SyntaxError: "),
        ("enrich = 3\n", "has no function enrich(message, config)"),
        ("raise SystemExit\n", "SystemExit"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_says_why_and_ends(tmp_path: Path, source: str, told: str) -> None:
    answers = talk(tmp_path, source, "x")
    assert [answer["number"] for answer in answers] == [0, 1]
    assert told in answers[1]["error"]


ENDLESS = "\n found = []\n found.append(found)\n return found"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return ['x' * 2000]", id="a text"),
        pytest.param("return [{'kind': {'deep': ['x' * 400, 'y' * 800]}}]", id="texts in one another"),
        pytest.param("return [Attachment('k', {'text': 'x' * 2000})]", id="the contract's own shapes"),
        pytest.param("return [[0] * 2000]", id="many small things"),
        pytest.param("return ['\\x00' * 900]", id="escapes"),
        pytest.param(ENDLESS, id="a list that holds itself"),
    ],
)
def test_more_than_may_be_returned_is_told_and_not_sent(tmp_path: Path, body: str) -> None:
    source = f"from parley.plugin import Attachment\ndef enrich(message, config): {body}\n"
    answers = talk(tmp_path, source, "a", output_bytes=1000)
    assert answers[2]["error"] == "enrich() returned too many bytes; it may return 1000"
