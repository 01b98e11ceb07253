"""What is ours goes into a file and out of it again, and every byte that is not ours stays."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.programs.catalogue import PROGRAMS, Place, ProgramFile, is_our_command
from parley.programs.json_file import BOM, Facts, JsonFile, runs_ours
from parley.programs.jsonc import NotJson, comments, parse
from parley.programs.section import BEGIN, NotASection, SectionFile
from parley.programs.setup import Planned
from parley.programs.toml_file import NotToml, TomlFile
from tests.programs import corpus

EMPTY = {about for about, text in corpus.JSON.items() if not (text or "").strip(BOM + " \n{}")}
FILES = {
    f"{program.name} {scope} {file.path.name}": file
    for program in PROGRAMS.values()
    for scope in ("project", "user")
    for file in program.files(Place(scope, Path("/there"), {}))
}


def befores(file: ProgramFile) -> dict[str, str | None]:
    """The corpus of this kind of file."""
    if isinstance(file.edit, JsonFile):
        return corpus.JSON
    return corpus.TOML if isinstance(file.edit, TomlFile) else corpus.MARKDOWN


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_a_file_is_as_it_was_when_ours_is_gone(file: ProgramFile) -> None:
    for about, before in befores(file).items():
        facts: Facts = {}
        there = file.edit.install(before, facts)
        assert there != before, about
        assert file.edit.install(there, dict(facts)) == there, f"{about}: a second time changes nothing"
        assert says_ours(file, there), about
        assert file.edit.remove(there, facts, recorded=True) == before, about


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_what_others_wrote_is_all_there_beside_ours(file: ProgramFile) -> None:
    for about, before in befores(file).items():
        there = file.edit.install(before, {})
        assert all(comment in there for comment in comments_of(file, before)), about
        if isinstance(file.edit, SectionFile):
            assert there.startswith((before or "").rstrip()), about
        if "\r\n" in (before or ""):
            assert "\n" not in there.replace("\r\n", ""), about
        assert there.startswith(BOM) is (before or "").startswith(BOM), about


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_without_a_record_nothing_of_ours_and_everything_else_stays(file: ProgramFile) -> None:
    for about, before in befores(file).items():
        there = file.edit.install(before, {})
        after = file.edit.remove(there, {}, recorded=False)
        if after is None:
            assert about in {*EMPTY, "empty servers", "a table of our name at the end"}, about
            continue
        assert not says_ours(file, after), about
        assert comments_of(file, after) == comments_of(file, before), about
        if isinstance(file.edit, SectionFile):
            assert after.split() == (before or "").split(), about


def test_what_somebody_added_to_ours_is_no_drift_and_stays() -> None:
    edit = FILES["cursor project mcp.json"].edit
    there = edit.install(None, {}).replace('"command": "parley",', '"command": "parley",\n      "env": {"A": "1"},')
    assert edit.install(there, {}) == there


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"timeout": 10', '"timeout": 1'),
        ("parley hook before-stop --program claude-code", "parley hook before-stop --program codex"),
        ("parley hook", "/old/bin/parley hook"),
    ],
)
def test_drift_of_a_hook_is_repaired_in_its_place(old: str, new: str) -> None:
    edit = FILES["claude-code project settings.json"].edit
    before = corpus.JSON["other hooks"]
    facts: Facts = {}
    there = edit.install(before, facts)
    drifted = there.replace(old, new)
    assert drifted != there
    assert edit.install(drifted, facts) == there
    assert edit.remove(there, facts, recorded=True) == before


def test_a_hook_that_was_put_into_somebodys_group_is_taken_out_of_it() -> None:
    edit = FILES["claude-code project settings.json"].edit
    ours = '{"type": "command", "command": "parley hook before-stop --program claude-code"}'
    left = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say"}]}]}}'
    text = left.replace('"say"}', f'"say"}}, {ours}')
    assert edit.remove(text, {}, recorded=True) == left
    facts: Facts = {}
    there = edit.install(text, facts)
    assert there.count("before-stop") == 1
    assert edit.remove(there, facts, recorded=True) == left


def test_hooks_that_are_there_twice_become_one() -> None:
    edit = FILES["cursor project hooks.json"].edit
    once = edit.install(None, {})
    item = '{"command": "parley hook before-stop --program cursor", "timeout": 10}'
    twice = once.replace('"stop": [', f'"stop": [\n      {item},\n      {item},')
    assert edit.install(twice, {"": None}).count("before-stop") == 1


def test_hooks_that_the_user_adds_to_a_file_of_ours_keep_it_valid() -> None:
    edit = FILES["cursor project hooks.json"].edit
    facts: Facts = {}
    there = edit.install(None, facts).replace('"stop": [', '"stop": [\n      {"command": "say"},')
    left = edit.remove(there, facts, recorded=True)
    assert left is not None
    assert json.loads(left) == {"version": 1, "hooks": {"stop": [{"command": "say"}]}}


def test_a_table_that_drifted_is_repaired_and_keeps_what_was_added() -> None:
    edit = FILES["codex user config.toml"].edit
    facts: Facts = {}
    there = edit.install('model = "x"\n', facts)
    drifted = there.replace(
        'args = ["mcp", "--program", "codex"]', '# mine\nargs = [\n  "old",\n]\nstartup_timeout_sec = 5'
    )
    drifted += '\n[mcp_servers.parley.env]\nA = "1"\n\n[tui]\ntheme = "dark"\n'
    repaired = edit.install(drifted, facts)
    assert tomllib.loads(repaired)["mcp_servers"]["parley"] == {
        "command": "parley",
        "args": ["mcp", "--program", "codex"],
        "startup_timeout_sec": 5,
        "env": {"A": "1"},
    }
    assert "# mine" in repaired
    assert edit.remove(repaired, facts, recorded=True) == 'model = "x"\n\n[tui]\ntheme = "dark"\n'


def test_what_was_written_below_a_section_stays_apart_from_what_is_above() -> None:
    edit = SectionFile("ours")
    facts: Facts = {}
    there = edit.install("above", facts) + "below\n"
    assert edit.remove(there, facts, recorded=True) == "above\nbelow\n"
    assert edit.install(there.replace("ours", "theirs"), facts) == there


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"a": }',
        '{"a": 1 "b": 2}',
        '{"a": 1} x',
        "{'a': 1}",
        '{"a": "\n"}',
        '{"a": "\\x"}',
        "{a: 1}",
        '{"a" 1}',
        '{"mcpServers": []}',
        '{"mcpServers": {}, "mcpServers": {}}',
        "// only words",
        "[" * 300,
    ],
)
def test_json_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        FILES["cursor project mcp.json"].edit.install(text, {})


@pytest.mark.parametrize("text", ['{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"hooks": {"Stop": 1}}'])
def test_hooks_in_an_unknown_form_are_refused(text: str) -> None:
    with pytest.raises(NotJson):
        FILES["codex project hooks.json"].edit.install(text, {})


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "[a]\n[a]\n",
        "mcp_servers = 1\n",
        "mcp_servers = { other = {} }\n",
        'mcp_servers.parley.command = "x"\n',
        '[mcp_servers]\nparley = { command = "x" }\n',
    ],
)
def test_toml_that_cannot_be_extended_is_refused(text: str) -> None:
    with pytest.raises(NotToml):
        FILES["codex project config.toml"].edit.install(text, {})


@pytest.mark.parametrize("text", [BEGIN, f"{BEGIN}{BEGIN}", "<!-- parley:end -->", f"<!-- parley:end -->{BEGIN}"])
def test_markers_that_do_not_pair_are_refused(text: str) -> None:
    with pytest.raises(NotASection):
        SectionFile("ours").install(text, {})


names = st.sampled_from(["mcpServers", "hooks", "Stop", "SessionStart", "parley", "a", "b/c", "~", "é", "command"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
layouts = st.sampled_from([None, 0, 1, 2, 4, "\t"])


@settings(max_examples=150)
@given(document=st.dictionaries(names, values, max_size=4), layout=layouts, windows=st.booleans(), end=st.booleans())
def test_any_json_is_given_back_or_refused(document: Any, layout: Any, windows: bool, end: bool) -> None:
    before = json.dumps(document, indent=layout, ensure_ascii=False) + ("\n" if end else "")
    before = before.replace("\n", "\r\n") if windows else before
    for file in (FILES["claude-code project settings.json"], FILES["gemini user settings.json"]):
        facts: Facts = {}
        try:
            there = file.edit.install(before, facts)
        except NotJson:
            continue
        json.loads(there)
        assert file.edit.install(there, dict(facts)) == there
        assert file.edit.remove(there, facts, recorded=True) == before


def says_ours(file: ProgramFile, text: str) -> bool:
    """Whether a program that reads the file finds Parley in it."""
    if isinstance(file.edit, SectionFile):
        return BEGIN in text
    if isinstance(file.edit, TomlFile):
        return tomllib.loads(text.removeprefix(BOM)).get("mcp_servers", {}).get("parley", {}).get("args", [])[:1] == [
            "mcp"
        ]
    document = parse(text.removeprefix(BOM)).value
    if "opencode" in file.path.name:
        return document.get("mcp", {}).get("servers", {}).get("parley", {}).get("command", [])[:2] == ["parley", "mcp"]
    if "tools" in file.parts:
        return document.get("mcpServers", {}).get("parley", {}).get("args", [])[:1] == ["mcp"]
    return any(runs_ours(item, is_our_command) for event in document.get("hooks", {}).values() for item in event)


def comments_of(file: ProgramFile, text: str | None) -> list[str]:
    """The comments of a file, leaving out what only looks like one inside of a text."""
    if not text or not isinstance(file.edit, JsonFile):
        return []
    return comments(re.sub(r'"(?:[^"\\]|\\.)*"', "", text))


def test_a_diff_shows_lines_as_the_file_has_them() -> None:
    before, after = '{"a": "one\u2028two\x85three"}\n\f\n', '{"a": "one\u2028two\x85three"}\nnew'
    planned = Planned(Path("f"), Path("f"), (), before.encode(), after.encode(), "missing", {})
    assert planned.diff().split("\n")[3:] == [
        ' {"a": "one\u2028two\x85three"}',
        "-\f",
        "+new",
        "\\ No newline at end of file",
        "",
    ]
