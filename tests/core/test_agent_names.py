"""Names that are made up."""

import re

from parley.core.agent_names import made_name, next_name
from parley.core.limits import AGENT_NAME_CHARS_MAX


def test_the_same_seed_has_the_same_name_and_others_mostly_have_others() -> None:
    assert made_name("session 1") == made_name("session 1")
    names = {made_name(f"session {number}") for number in range(200)}
    assert len(names) > 150
    assert all(re.fullmatch("[a-z]+-[a-z]+", name) for name in names)


def test_a_name_that_is_taken_gets_the_next_number() -> None:
    assert next_name("brisk-otter") == "brisk-otter-2"
    assert next_name("brisk-otter-2") == "brisk-otter-3"
    assert next_name("a" * AGENT_NAME_CHARS_MAX) == "a" * (AGENT_NAME_CHARS_MAX - 2) + "-2"
