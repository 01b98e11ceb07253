"""Patterns of paths: decided exactly, the same from both sides."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.errors import InvalidInput
from parley.core.limits import PATTERN_CHARS_MAX
from parley.core.patterns import compiled, covers, normal_path, normal_pattern, overlap

NAMES = ["".join(letters) for length in (1, 2) for letters in product("ab", repeat=length)]
PATHS = ["/".join(parts) for length in (1, 2, 3) for parts in product(NAMES, repeat=length)]
"""Every path of up to three segments of up to two letters: enough for patterns of two segments of two tokens."""
SEGMENTS = st.lists(st.sampled_from(["a", "b", "?", "*", "[ab]", "[!a]"]), min_size=1, max_size=2).map("".join)
PATTERNS = (
    st.lists(SEGMENTS.filter(lambda text: text != "**") | st.just("**"), min_size=1, max_size=2)
    .map("/".join)
    .map(normal_pattern)
)


def by_expression(pattern: str) -> re.Pattern[str]:
    """The same meaning, said once more by a regular expression."""
    parts = pattern.split("/")
    text = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            text += r"(?:/[^/]+)*"
            continue
        text += "/" + part.replace("?", r"[^/]").replace("**", "*").replace("*", r"[^/]*").replace("[!", "[^/")
        if last and not set(part) & set("*?["):
            text += r"(?:/[^/]+)*"
    return re.compile(text)


@given(PATTERNS)
def test_a_pattern_covers_what_its_expression_matches(pattern: str) -> None:
    expression = by_expression(pattern)
    assert [path for path in PATHS if covers(pattern, path)] == [
        path for path in PATHS if expression.fullmatch(f"/{path}")
    ]


@given(PATTERNS, PATTERNS)
def test_two_patterns_overlap_exactly_if_a_path_is_covered_by_both(left: str, right: str) -> None:
    """``[!a]`` also stands for letters beyond the alphabet, but whenever it meets another token, ``b`` is enough."""
    both = any(covers(left, path) and covers(right, path) for path in PATHS)
    assert overlap(left, right) == both == overlap(right, left)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("src/**", "src/hub/hub.py", True),
        ("src/hub", "src/hub/hub.py", True),
        ("src/hub/", "src/hub/hub.py", True),
        ("src/*", "src/hub/hub.py", False),
        ("src/*.py", "src/h*", True),
        ("src/*.py", "src/*.js", False),
        ("**/test_*.py", "tests/**", True),
        ("**", "anything", True),
        ("docs/[a-m]*.md", "docs/[n-z]*.md", False),
        ("docs/[!a]*.md", "docs/a*.md", False),
        ("a/**/z", "a/z", True),
        ("README.md", "readme.md", False),
        ("[*]", "a", False),
        ("a[]]b", "a]b", True),
    ],
)
def test_examples(left: str, right: str, expected: bool) -> None:
    left, right = normal_pattern(left), normal_pattern(right)
    assert overlap(left, right) == overlap(right, left) == expected


def test_characters_of_a_path_are_not_wildcards() -> None:
    assert covers("a[*]", "a*")
    assert not covers("ab", "a*")
    assert not covers("a/b", "a")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("./src//a.py", "src/a.py"), ("src/", "src/**"), ("src/**/", "src/**"), ("a/**/**/b", "a/**/b"), ("a/./b", "a/b")],
)
def test_a_pattern_has_one_form(text: str, expected: str) -> None:
    assert normal_pattern(text) == expected


@pytest.mark.parametrize(
    "text", ["", ".", "/etc/passwd", "../x", "a/../../b", "a\\b", "a\0", "[ab", "a/[", "[z-a]", "[/]", "a" * 501]
)
def test_what_leaves_the_workspace_or_is_not_closed_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        normal_pattern(text)


def test_a_path_is_taken_as_it_is() -> None:
    assert normal_path("./src/[x].py") == "src/[x].py"
    with pytest.raises(InvalidInput):
        normal_path("../x")


def test_the_longest_patterns_are_compared_without_trouble() -> None:
    left, right = ("*a" * PATTERN_CHARS_MAX)[:PATTERN_CHARS_MAX], ("a*b" * PATTERN_CHARS_MAX)[:PATTERN_CHARS_MAX]
    assert overlap(normal_pattern(left), normal_pattern(right)) in (True, False)
    assert len(compiled("*" * PATTERN_CHARS_MAX)) == 1
