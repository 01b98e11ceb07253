"""The documents name no command, target, setting, metric or code that does not exist."""

import re
import tomllib

import pytest

from parley.app.services import CI_VARIABLES
from parley.core import limits
from parley.core.broker_settings import broker_setting_specs
from parley.core.daemon_metrics import DAEMON_METRICS
from parley.core.daemon_settings import daemon_setting_specs
from parley.core.registry import registry
from parley.serve.http import HEAD_BYTES_MAX, IDLE_LOOKS, HttpConnection
from parley.workspace.config import parse_settings
from scripts.docs import ROOT, command_helps
from tests.docs.markdown import NAMES, blocks, document, prose

PUBLIC = registry()
COMMANDS = {name for name, _ in command_helps()}
GROUPS = {command.split()[1] for command in COMMANDS if command.count(" ") == 2}
SETTINGS = {setting.name for setting in (*PUBLIC.settings, *broker_setting_specs(), *daemon_setting_specs())}
TABLES = {setting.table for setting in PUBLIC.settings}
UPPER_CASE = {
    *(error.code for error in PUBLIC.errors),
    *(name for name in vars(limits) if name.isupper()),
    *CI_VARIABLES,
    "JAVA_HOME",
    "SSL_CERT_FILE",
    "NO_COLOR",
    "PARLEY_WORKSPACE",
    "PARLEY_AGENT",
    "PARLEY_MODEL",
    "PARLEY_HOME",
    "PARLEY_BUS_PEER",
    "PARLEY_BUS_TOPIC",
    "PARLEY_HUB_TOKEN",
    "PARLEY_SESSION",
    "PARLEY_GUARD",
    "PARLEY_DAEMON_HOME",
    "PARLEY_BUS_HOME",
    "PARLEY_DAEMON_SESSION",
    "PARLEY_CREATION_TOKEN",
    "PARLEY_PASSPHRASE",
    *("PARLEY_HOOK_NAME", "PARLEY_EVENT_ID", "PARLEY_MESH", "PARLEY_CAPABILITY_TOKEN"),
    "PARLEY_HOOK_SECONDS",
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"),
}
WORD = r"[a-z][a-z-]*"


def commands_named(text: str) -> set[str]:
    named = re.findall(rf"`parley ({WORD})(?: ({WORD}))?", prose(text))
    return {f"parley {first} {second}" if first in GROUPS and second else f"parley {first}" for first, second in named}


def targets_named(text: str) -> set[str]:
    return set(re.findall(rf"(?:`|^)make ({WORD})", text, re.MULTILINE))


def settings_named(text: str) -> set[str]:
    return set(re.findall(rf"`((?:{'|'.join(TABLES)})\.[a-z_]+)[` ]", prose(text)))


def metrics_named(text: str) -> set[str]:
    return set(re.findall(r"`(parley_[a-z_]+)`", prose(text)))


def codes_named(text: str) -> set[str]:
    return set(re.findall(r"`([A-Z]+_[A-Z_]+)`", prose(text)))


@pytest.mark.parametrize("name", NAMES)
def test_a_document_names_only_what_exists(name: str) -> None:
    text = document(name)
    assert commands_named(text) - COMMANDS == set()
    assert targets_named(text) - set(re.findall(r"^([a-z]+):", document("Makefile"), re.MULTILINE)) == set()
    assert settings_named(text) - SETTINGS == set()
    assert metrics_named(text) - {metric.name for metric in (*PUBLIC.metrics, *DAEMON_METRICS)} == set()
    assert codes_named(text) - UPPER_CASE == set()


@pytest.mark.parametrize("name", ["docs/protocol.md", "docs/security.md"])
def test_the_limits_of_a_connection_are_told_as_they_are(name: str) -> None:
    """Silence is found at the next look but one at the latest, so each time has two ends."""
    look = round(HttpConnection.silence_seconds)
    text = document(name)
    assert f"{HEAD_BYTES_MAX // 1024} KiB" in text
    assert f"{look} to {2 * look} seconds" in text
    assert f"{IDLE_LOOKS * look} to {(IDLE_LOOKS + 1) * look} seconds" in text


def test_what_does_not_exist_is_found() -> None:
    """Positive control."""
    text = "`parley fly`, `parley msg shout`, `make coffee`, `hub.harbour = 1`, `parley_songs`, `NO_SUCH_CODE`"
    assert commands_named(text) == {"parley fly", "parley msg shout"}
    assert targets_named(text) == {"coffee"}
    assert settings_named(text) == {"hub.harbour"}
    assert metrics_named(text) == {"parley_songs"}
    assert codes_named(text) == {"NO_SUCH_CODE"}


@pytest.mark.parametrize("name", NAMES)
def test_settings_that_are_shown_are_valid(name: str) -> None:
    for block in blocks(document(name)):
        if block.language == "toml":
            parse_settings(tomllib.loads(block.text))


def test_each_promise_about_meshes_names_a_test_that_there_is() -> None:
    there = set(re.findall(r"def (test_\w+)", (ROOT / "tests/daemon/test_trust.py").read_text(encoding="utf-8")))
    named = set(re.findall(r"`(test_\w+)`", document("docs/security.md")))
    assert len(named) >= 11
    assert named - there == set()
