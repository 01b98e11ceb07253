"""``parley re-enrich``: history for the plugins again."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.app.start import UNLIMITED, start_detached
from parley.app.stop import stop_hub
from parley.sandbox import missing
from parley.workspace import discovery
from tests.cli.conftest import Parley

DEADLINE_SECONDS = 60.0
PLUGINS = """
[[plugins]]
name = "links"
type = "linkifier"
[[plugins]]
name = "more"
type = "extractor"
builtin = "urls"
"""
needs_sandbox = pytest.mark.skipif(bool(missing()), reason="no sandbox here")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace with the built-in plugins and a real hub, which ends with the module."""
    workspace = discovery.create(tmp_path_factory.mktemp("workspace"))
    workspace.config.write_text(PLUGINS)
    start_detached(workspace, UNLIMITED)
    yield workspace.root
    stop_hub(workspace, 10.0)


def until_done(parley: Parley, root: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while parley("-w", root, "status", "--json").json["jobs"]["waiting"]:
        assert time.monotonic() < deadline, "the plugins did not get done"
        time.sleep(0.05)


@needs_sandbox
def test_history_is_queued_again_for_all_plugins_or_for_one(parley: Parley, root: Path) -> None:
    parley("-w", root, "channel", "create", "general")
    parley("-w", root, "topic", "create", "--channel", "general", "--title", "t")
    topic = parley("-w", root, "topic", "list", "--channel", "general", "--json").json["topics"][0]["id"]
    for number in range(2):
        sent = parley("-w", root, "msg", "send", "--topic-id", topic, "--sender", "ann", "--content", f"a/{number}.py")
        assert sent.code == 0, sent.stderr
    until_done(parley, root)
    assert parley("-w", root, "re-enrich", "--since", "0", "--json").json["queued"] == 4
    until_done(parley, root)
    one = parley("-w", root, "re-enrich", "--since", "0", "--plugin", "more")
    assert (one.code, one.stdout) == (0, "Queued 2 jobs.\n")
    until_done(parley, root)
    assert parley("-w", root, "re-enrich", "--since", "100000").stdout == "Queued 0 jobs.\n"


def test_a_plugin_that_is_not_there_is_named(parley: Parley, root: Path) -> None:
    refused = parley("-w", root, "re-enrich", "--since", "0", "--plugin", "unknown")
    assert refused.code == 1
    assert "unknown" in refused.stderr


@pytest.mark.parametrize("args", [(), ("--since", "-1"), ("--since", "x")])
def test_it_must_know_from_where_on(parley: Parley, root: Path, args: tuple[str, ...]) -> None:
    refused = parley("-w", root, "re-enrich", *args)
    assert refused.code == 1
    assert "--since" in refused.stderr


def test_without_a_hub_it_is_3(parley: Parley, tmp_path: Path) -> None:
    discovery.create(tmp_path)
    assert parley("-w", tmp_path, "re-enrich", "--since", "0").code == 3
