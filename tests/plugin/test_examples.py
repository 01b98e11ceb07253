"""The plugins in ``examples/plugins`` find what the guide says they find."""

from typing import Any

import pytest

from parley.app.plugin_trial import find_trial, run, sample_message
from parley.core.clock import SystemClock
from parley.sandbox import missing
from scripts.docs import ROOT

EXAMPLES = ROOT / "examples" / "plugins"
FOUND: dict[str, tuple[str, list[Any]]] = {
    "tickets.py": (
        "PAR-42 is done, see https://example.com/PAR-1",
        [{"url": "https://tickets.example.com/PAR-42", "title": "Ticket 42"}],
    ),
    "decisions.py": ("Well.\nDecision: ship it\n", [{"text": "ship it", "by": "sample"}]),
    "colours.py": ("make it #ff8800, not #ff88", [{"hex": "#ff8800"}]),
}


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == FOUND.keys()


@pytest.mark.skipif(bool(missing()), reason="no sandbox here")
@pytest.mark.parametrize("name", FOUND)
def test_an_example_finds_what_it_is_meant_to_find(name: str) -> None:
    text, expected = FOUND[name]
    clock = SystemClock()
    report = run(find_trial(None, str(EXAMPLES / name), None), sample_message(text, clock), clock)
    found = [each["data"] for each in report["enrichments"]] + [each["value_json"] for each in report["attachments"]]
    assert found == expected
