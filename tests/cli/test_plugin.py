"""``parley plugin``: a plugin in five minutes."""

from pathlib import Path

import pytest

from parley.app.make import make_workspace
from parley.app.start import UpOptions, start_detached
from parley.app.stop import stop_hub
from parley.sandbox import missing
from parley.workspace import discovery
from tests.cli.conftest import Parley

needs_sandbox = pytest.mark.skipif(bool(missing()), reason="no sandbox here")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PARLEY_HOME", str(tmp_path / "home"))
    root = tmp_path / "work"
    root.mkdir()
    monkeypatch.chdir(root)
    return make_workspace(root)[0].root


@needs_sandbox
@pytest.mark.parametrize(("kind", "found"), [("linkifier", "TICKET-42"), ("extractor", "ship on Friday")])
def test_a_new_plugin_works_at_once(parley: Parley, root: Path, kind: str, found: str) -> None:
    made = parley("plugin", "new", "my-own", "--type", kind, "--json").json
    assert (made["module"], made["sample"]) == (
        str(root / "plugins/my_own.py"),
        str(root / "plugins/my_own.sample.txt"),
    )
    by_path = parley("plugin", "test", made["module"], "--file", made["sample"])
    assert by_path.code == 0
    assert found in by_path.stdout
    assert "It took " in by_path.stderr
    (root / "parley.toml").write_text(made["settings"])
    by_name = parley("plugin", "test", "my-own", "--file", made["sample"], "--json").json
    assert len(by_name["enrichments"] + by_name["attachments"]) == 2
    assert (by_name["plugin"], by_name["type"]) == ("my-own", kind)


def test_what_to_do_next_is_told_beside_the_data(parley: Parley, root: Path) -> None:
    made = parley("plugin", "new", "own", "--dir", "more")
    assert made.stdout == "more/own.py\nmore/own.sample.txt\n"
    assert 'module = "more/own.py"' in made.stderr
    assert "parley plugin test more/own.py --file more/own.sample.txt" in made.stderr


@pytest.mark.parametrize("name", ["Big", "a b", "../up", "1st", "", "x" * 65])
def test_a_name_that_cannot_be_is_refused(parley: Parley, root: Path, name: str) -> None:
    assert parley("plugin", "new", name).code == 1
    assert not (root / "plugins").exists()


def test_nothing_is_overwritten(parley: Parley, root: Path) -> None:
    parley("plugin", "new", "own")
    (root / "plugins/own.py").write_text("mine")
    refused = parley("plugin", "new", "own")
    assert (refused.code, (root / "plugins/own.py").read_text()) == (1, "mine")
    assert "exists already" in refused.stderr


def test_a_plugin_can_be_made_without_a_workspace(
    parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert parley("plugin", "new", "own").stdout == "plugins/own.py\nplugins/own.sample.txt\n"


@needs_sandbox
def test_a_plugin_runs_on_a_text_with_its_config(parley: Parley, root: Path) -> None:
    parley("plugin", "new", "own")
    run = parley("plugin", "test", "plugins/own.py", "--text", "TICKET-1", "--config", '{"base": "https://b.example/"}')
    assert run.stdout == 'link\t0-8\tTICKET-1\t{"url": "https://b.example/TICKET-1"}\n'
    assert parley("plugin", "test", "plugins/own.py", "--file", "-", stdin="TICKET-2").stdout.startswith("link\t0-8")
    assert parley("plugin", "test", "plugins/own.py", "--text", "none").stderr.startswith("It found nothing.\n")


@needs_sandbox
def test_a_path_of_a_configured_plugin_means_that_plugin(parley: Parley, root: Path) -> None:
    made = parley("plugin", "new", "own", "--json").json
    (root / "parley.toml").write_text(made["settings"] + 'enabled = false\nconfig = { base = "https://c.example/" }\n')
    assert "https://c.example/TICKET-1" in parley("plugin", "test", "plugins/own.py", "--text", "TICKET-1").stdout
    refused = parley("plugin", "test", "own", "--text", "x", "--config", "{}")
    assert (refused.code, "--config has no place here" in refused.stderr) == (1, True)


@needs_sandbox
def test_built_ins_can_be_tried_without_being_configured(parley: Parley, root: Path) -> None:
    assert parley("plugin", "test", "links", "--text", "src/a.py").stdout.startswith("file_path\t0-8\tsrc/a.py")
    tried = parley("plugin", "test", "urls", "--text", "https://a.example", "--config", '{"block": ["a.example"]}')
    assert tried.stderr.startswith("It found nothing.")


@needs_sandbox
@pytest.mark.parametrize(
    ("source", "reason", "told"),
    [
        ("def enrich(message, config): print('hello'); 1 / 0\n", "error", "ZeroDivisionError: division by zero"),
        (
            "def enrich(message, config): return [3]\n",
            "invalid",
            "enrich(), result 1: must be an object, not a whole number",
        ),
        ("import os\ndef enrich(message, config): os._exit(4)\n", "crash", "exit code 4"),
        ("import nothing_there\ndef enrich(message, config): ...\n", "error", "No module named 'nothing_there'"),
        ("def enrich(message): ...\n", "broken", "enrich must take two arguments"),
        ("def (", "broken", "own.py, line 1"),
        ("x = 1\n", "broken", "own.py has no function enrich(message, config)"),
        ("def extract(message): ...\n", "broken", "extract must take two arguments"),
    ],
)
def test_a_failure_is_told_with_its_reason(parley: Parley, root: Path, source: str, reason: str, told: str) -> None:
    (root / "own.py").write_text(source)
    failed = parley("plugin", "test", "own.py", "--text", "x", "--json")
    assert failed.code == 1
    assert (failed.json["code"], failed.json["details"]["reason"]) == ("PLUGIN_FAILED", reason)
    assert told in failed.json["error"]
    assert failed.json["hint"]
    for_a_person = parley("plugin", "test", "own.py", "--text", "x")
    assert told in for_a_person.stderr
    assert ("It printed:\nhello" in for_a_person.stderr) == ("hello" in source)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("nope", "--text", "x"), "No plugin nope"),
        (("own.py",), "Give one of --text, --message and --file."),
        (("own.py", "--text", "x", "--message", "msg_1"), "Give one of --text, --message and --file."),
        (("own.py", "--text", "x", "--config", "[]"), "--config must be a JSON object"),
        (("own.py", "--text", "x", "--config", "{"), "--config must be a JSON object"),
        (("own.py", "--file", "missing.txt"), "missing.txt"),
    ],
)
def test_a_wrong_call_is_told(parley: Parley, root: Path, args: tuple[str, ...], told: str) -> None:
    (root / "own.py").write_text("def enrich(message, config): ...\n")
    refused = parley("plugin", "test", *args)
    assert refused.code == 1
    assert told in refused.stderr


def test_a_workspace_without_plugins_has_none_to_list(parley: Parley, root: Path) -> None:
    assert parley("plugin", "list").stderr.startswith("parley.toml names no plugins.\n")


@needs_sandbox
def test_the_list_has_the_health_of_the_running_hub(parley: Parley, root: Path) -> None:
    (root / "parley.toml").write_text(
        '[[plugins]]\nname = "links"\ntype = "linkifier"\n'
        '[[plugins]]\nname = "own"\ntype = "extractor"\nmodule = "own.py"\n'
        '[[plugins]]\nname = "off"\ntype = "extractor"\nmodule = "off.py"\nenabled = false\n'
    )
    assert not parley("plugin", "list", "--json").json["hub_running"]
    workspace = discovery.at(root)
    start_detached(workspace, UpOptions())
    try:
        channel = parley("channel", "create", "--name", "general", "--json").json["channel"]["id"]
        topic = parley("topic", "create", "--channel-id", channel, "--title", "t", "--json").json["topic"]["id"]
        sent = parley("msg", "send", "--topic-id", topic, "--sender", "ann", "see src/a.py").stdout.strip()
        report = parley("plugin", "list", "--json").json
        tried = parley("plugin", "test", "links", "--message", sent)
        missing_message = parley("plugin", "test", "links", "--message", "msg_none")
        lines = parley("plugin", "list").stdout.splitlines()
    finally:
        stop_hub(workspace, 30)
    assert report["hub_running"]
    assert [(each["name"], each["state"]) for each in report["plugins"]] == [
        ("links", "ready"), ("own", "broken"), ("off", "disabled"),
    ]  # fmt: skip
    assert report["plugins"][0]["hub"]["name"] == "links"
    assert report["plugins"][1]["hub"]["waiting"] == 1
    assert tried.stdout.startswith("file_path\t4-12\tsrc/a.py")
    assert "No message msg_none" in missing_message.stderr
    assert lines[1].split("\t")[3:] == ["broken", "1", "0", "own.py does not exist"]
