"""A value in a server's TOML file is one that the server can work with, or is named with what is allowed."""

from pathlib import Path

import pytest

from parley.core.broker_settings import BrokerSettings, broker_setting_specs
from parley.core.daemon_settings import DaemonSettings, daemon_setting_specs
from parley.core.errors import ConfigInvalid
from parley.core.setting_files import load_settings
from parley.core.setting_values import checked
from parley.core.settings import SettingSpec


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[outbox]\nprune_days = nan\n", "outbox.prune_days must be at least 0.01, not nan"),
        ("[outbox]\nprune_days = inf\n", "outbox.prune_days must be at least 0.01, not inf"),
        ("[outbox]\nprune_days = 0\n", "outbox.prune_days must be at least 0.01, not 0"),
        ("[inbox]\nretention_days = nan\n", "inbox.retention_days must be from 0.01 to 3,650, not nan"),
        ("[outbox]\nprune_days = '3'\n", 'outbox.prune_days must be a number, not "3"'),
        ("[outbox]\nprune_days = true\n", "outbox.prune_days must be a number, not true"),
        ("[ipc]\nstreams_max = 1.5\n", "ipc.streams_max must be a whole number, not 1.5"),
        ("[ipc]\nstreams = 3\n", "ipc.streams is not a setting"),
    ],
)
def test_a_mistake_is_told_in_words(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text(text)
    with pytest.raises(ConfigInvalid) as refused:
        load_settings(file, DaemonSettings(), daemon_setting_specs())
    assert refused.value.message == told
    assert refused.value.hint == "Correct the named key; docs/daemon.md lists all settings."


def test_a_whole_number_may_stand_for_any(tmp_path: Path) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text("[outbox]\nprune_days = 3\n")
    assert load_settings(file, DaemonSettings(), daemon_setting_specs()).outbox.prune_days == 3.0


def test_what_is_no_text_is_told_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigInvalid, match=r"broker\.toml cannot be read") as refused:
        load_settings(file, BrokerSettings(), broker_setting_specs())
    assert "docs/broker.md" in refused.value.hint


@pytest.mark.parametrize("spec", [*daemon_setting_specs(), *broker_setting_specs()], ids=lambda spec: spec.name)
def test_every_default_may_be_written_down(spec: SettingSpec) -> None:
    assert checked(spec, spec.default) == spec.default
