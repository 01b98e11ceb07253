"""The top of the command line: help, versions, usage errors, what is imported and what is not."""

import importlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import parley
from parley.cli.root import ENTRIES, root, run
from tests.cli.conftest import Parley, Ran, parley_process

ROOT = Path(__file__).parents[2]


def leaves() -> list[tuple[str, ...]]:
    """Every command's words, groups resolved."""
    top = typer.main.get_command(root)
    context = typer.Context(top)
    found: list[tuple[str, ...]] = []
    for entry in ENTRIES:
        command = top.get_command(context, entry.name)  # type: ignore[attr-defined]
        found += leaves_of(command, (entry.name,))
    return found


def leaves_of(command: object, words: tuple[str, ...]) -> list[tuple[str, ...]]:
    inner: dict[str, object] = getattr(command, "commands", {})
    below = [leaf for name, child in inner.items() for leaf in leaves_of(child, (*words, name))]
    return below or [words]


def command_of(words: tuple[str, ...]) -> Any:
    """The command behind the words."""
    found: Any = typer.main.get_command(root)
    for word in words:
        found = found.get_command(typer.Context(found), word)
    return found


def numbers() -> list[tuple[tuple[str, ...], str]]:
    """Every option that takes a number, with its command."""
    return [
        (words, param.opts[0])
        for words in leaves()
        for param in command_of(words).params
        if param.type.name.startswith(("int", "float"))
    ]


def test_help_lists_every_command_with_its_line(parley: Parley) -> None:
    result = parley("--help")
    assert result.code == 0
    for entry in ENTRIES:
        assert f"  {entry.name}" in result.stdout
        assert entry.help in result.stdout


def test_without_a_command_the_help_is_shown(parley: Parley) -> None:
    assert parley() == parley("--help")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_line_in_the_list_is_the_first_line_of_the_commands_own_help(entry: object, parley: Parley) -> None:
    assert entry.help in parley(entry.name, "--help").stdout  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_every_command_takes_the_shared_options_and_explains_each_option(
    words: tuple[str, ...], parley: Parley
) -> None:
    text = parley(*words, "--help").stdout
    for option in ("-w, --workspace FOLDER", "--json", "--no-color", "-h, --help"):
        assert option in text
    lines = text[text.index("Options:") :].splitlines()[1:]
    unexplained = [line for line in lines if line.startswith("  -") and len(line.split("  ")) < 3]
    assert [line for line in unexplained if not line_is_continued(lines, line)] == []


def line_is_continued(lines: list[str], line: str) -> bool:
    following = lines[lines.index(line) + 1 : lines.index(line) + 2]
    return bool(following) and following[0].startswith("    ")


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_every_command_is_written_down_in_the_docs(words: tuple[str, ...]) -> None:
    assert f"`parley {' '.join(words)}" in (ROOT / "docs" / "cli-json.md").read_text()


def test_the_exit_codes_in_the_docs_are_those_of_the_product() -> None:
    from parley.core.exits import Exit

    text = (ROOT / "docs" / "cli-json.md").read_text()
    for exit_code in Exit:
        assert f"| {exit_code.value} | {exit_code.meaning} |" in text


def test_version(parley: Parley) -> None:
    result = parley("--version")
    assert (result.code, result.stdout) == (0, f"parley {parley_version()}\n")


def parley_version() -> str:
    return importlib.import_module("parley").__version__


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["msg", "nonsense"],
        ["channel", "list", "--nonsense"],
        ["msg", "tail"],
        ["msg", "tail", "--topic-id", "t", "--limit", "many"],
        ["msg", "tail", "--topic-id", "t", "--limit", "0"],
        ["msg", "retopic", "m", "--to-topic-id", "t", "--mode", "some"],
        ["up", "--port", "70000"],
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_with_1_and_is_json_when_asked_for(args: list[str], parley: Parley) -> None:
    spoken = parley(*args)
    assert spoken.code == 1
    assert spoken.stdout == ""
    assert spoken.stderr.startswith("Error: ")
    assert "--help`" in spoken.stderr

    for written in (parley(*args, "--json"), parley("--json", *args)):
        assert written.code == 1
        assert written.stderr == ""
        assert written.stdout.count("\n") == 1
        assert written.json["status"] == "error"
        assert written.json["code"] == "INVALID_INPUT"


def test_a_group_without_a_command_shows_its_help_and_is_an_error(parley: Parley) -> None:
    spoken = parley("msg")
    assert (spoken.code, spoken.stdout) == (1, "")
    assert spoken.stderr == parley("msg", "--help").stdout

    for written in (parley("msg", "--json"), parley("--json", "msg")):
        assert (written.code, written.stderr, written.json["code"]) == (1, "", "INVALID_INPUT")


def test_a_near_miss_is_met_with_a_suggestion(parley: Parley) -> None:
    assert "Did you mean 'status'?" in parley("statsu").stderr


def test_json_after_a_double_dash_is_text_not_an_option(parley: Parley) -> None:
    assert parley("msg", "send", "--topic-id", "t", "--nonsense", "--", "--json").stderr.startswith("Error: ")


def test_a_fault_of_ours_is_reported_with_its_traceback_and_exit_1(
    parley: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(Path, "cwd", broken)
    result = parley("channel", "list", "--json")
    assert result.code == 1
    assert result.json["code"] == "INTERNAL_ERROR"
    assert "ZeroDivisionError: oh" in result.stderr


def test_no_workspace_is_an_error_with_what_to_do(parley: Parley, tmp_path: Path) -> None:
    result = parley("channel", "list", "--json", "--workspace", tmp_path)
    assert result.code == 1
    assert result.json["code"] == "WORKSPACE_NOT_FOUND"
    assert "parley init" in result.json["hint"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["--help", "--json --version", "status", "--json status"])
def test_an_output_that_takes_nothing_is_said_in_a_sentence(command: str, unbuffered: str, tmp_path: Path) -> None:
    assert parley_process("init", cwd=tmp_path).code == 0
    full = subprocess.run(
        ["sh", "-c", f"exec {shlex.quote(sys.executable)} -m parley {command} >/dev/full"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (full.returncode, full.stderr) == (
        1,
        "Error: The output cannot be written: No space left on device\nSend it elsewhere, or make room.\n",
    )


def test_closed_streams_are_no_trouble_and_their_numbers_are_given_to_no_file(tmp_path: Path) -> None:
    made = subprocess.run(
        ["sh", "-c", f"exec {shlex.quote(sys.executable)} -m parley init <&- >&- 2>&-"],
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert made.returncode == 0
    assert parley_process("--json", "status", "--workspace", tmp_path).json["status"] == "not_running"


def test_a_closed_pipe_ends_a_command_without_a_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "parley", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(30)


@pytest.mark.parametrize("args", [["--help"], ["msg", "send", "--help"], ["completion", "bash"]], ids=" ".join)
def test_help_loads_no_database_no_network_and_no_server(args: list[str]) -> None:
    code = (
        "import sys\nfrom parley.cli.root import run\nrun(sys.argv[1:])\n"
        "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    loaded = set(ended.stderr.split())
    heavy = {"rich", "httpx", "websockets", "apsw", "asyncio", "uvicorn", "starlette", "parley.app", "parley.client"}
    assert heavy & loaded == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str, parley: Parley) -> None:
    spoken, written = parley("completion", shell), parley("completion", shell, "--json")
    assert "_PARLEY_COMPLETE" in spoken.stdout
    assert written.json == {"status": "ok", "shell": shell, "script": spoken.stdout.strip("\n")}


def complete(words: str) -> Ran:
    import os

    environment = os.environ | {
        "_PARLEY_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    return parley_process(env=environment)


def test_the_script_completes_commands_and_options() -> None:
    assert complete("parley ch").stdout.split() == ["channel"]
    assert complete("parley msg re").stdout.split() == ["retopic"]
    assert complete("parley msg retopic --mo").stdout.split() == ["--mode"]


def test_the_module_runs_as_the_command() -> None:
    result = parley_process("--json", "nonsense")
    assert result.code == 1
    assert json.loads(result.stdout)["code"] == "INVALID_INPUT"


def test_run_returns_what_the_process_would_exit_with() -> None:
    assert run(["--version"]) == 0
    assert parley.__version__


@pytest.mark.parametrize(
    ("words", "option"), numbers(), ids=lambda part: part if isinstance(part, str) else " ".join(part)
)
def test_every_number_among_the_options_can_be_counted_with(
    words: tuple[str, ...], option: str, parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    needed = [param for param in command_of(words).params if param.required and param.opts[0] != option]
    rest = [part for param in needed for part in ([param.opts[0], "1"] if param.opts[0].startswith("-") else ["1"])]
    for number in ("nan", "-inf", "9" * 30, "one"):
        refused = parley("--json", *words, *rest, f"{option}={number}")
        assert refused.code == 1, number
        assert refused.json["code"] == "INVALID_INPUT"
        assert f"Invalid value for '{option}'" in refused.json["error"]
    assert list(tmp_path.iterdir()) == []
