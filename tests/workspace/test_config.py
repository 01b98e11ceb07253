"""``parley.toml``: what is accepted, and how a mistake is named."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from parley.core.errors import ConfigInvalid
from parley.core.settings import HubSettings, Settings, SettingSpec, setting_specs
from parley.workspace.config import load_settings, render_default_toml


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "parley.toml"


def refusal(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigInvalid) as refused:
        load_settings(file)
    return refused.value.message


def test_no_file_means_the_defaults(file: Path) -> None:
    assert load_settings(file) == Settings()


def test_values_of_every_type_take_effect(file: Path) -> None:
    file.write_text(
        '[hub]\nport = 4100\nopen_reads = true\nsynchronous = "normal"\ndrain_seconds = 3\n'
        '[urls]\nallow = ["example.org"]\n[idempotency]\nretention_days = 0.5\n'
    )
    settings = load_settings(file)
    assert settings.hub == HubSettings(port=4100, open_reads=True, synchronous="normal", drain_seconds=3.0)
    assert isinstance(settings.hub.drain_seconds, float)
    assert settings.urls.allow == ("example.org",)
    assert settings.idempotency.retention_days == 0.5
    assert replace(settings, hub=HubSettings(), urls=Settings().urls, idempotency=Settings().idempotency) == Settings()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[hub]\nprot = 1", "hub.prot is not a setting; did you mean port?"),
        ("[hub]\nzzz = 1", "hub.zzz is not a setting; known are"),
        ("[rate_limit]\nenabled = true", "rate_limit is not a table of parley.toml; did you mean rate_limits?"),
        ("[[plugins]]\nname = 'x'", "plugins is not a table"),
        ("hub = 3", "hub must be a table: [hub]"),
        ("[hub]\nport = true", "hub.port must be a whole number, not true"),
        ("[hub]\nport = 4100.0", "hub.port must be a whole number, not 4100.0"),
        ("[hub]\nport = '80'", 'hub.port must be a whole number, not "80"'),
        ("[hub]\nopen_reads = 1", "hub.open_reads must be true or false, not 1"),
        ("[hub]\nhost = 127", "hub.host must be a text, not 127"),
        ("[hub]\nport = 65536", "hub.port must be from 0 to 65,535, not 65536"),
        ("[hub]\nport = -1", "hub.port must be from 0 to 65,535, not -1"),
        ("[hub]\nsynchronous = 'off'", 'hub.synchronous must be one of full, normal, not "off"'),
        ("[websocket]\nping_seconds = 0", "websocket.ping_seconds must be at least 0.1, not 0"),
        ("[websocket]\nping_seconds = inf", "websocket.ping_seconds must be at least 0.1, not inf"),
        ("[websocket]\nping_seconds = nan", "websocket.ping_seconds must be at least 0.1, not nan"),
        ("[websocket]\nping_seconds = true", "websocket.ping_seconds must be a number, not true"),
        ("[urls]\nallow = 'example.org'", 'urls.allow must be a list of texts, not "example.org"'),
        ("[urls]\nallow = [1]", "urls.allow must be a list of texts, not [1]"),
        ("[hub]\nport = ", "not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(file: Path, text: str, told: str) -> None:
    assert told in refusal(file, text)


def test_all_mistakes_are_told_at_once(file: Path) -> None:
    message = refusal(file, "[hub]\nprot = 1\nport = 70000\n[log]\nlevel = 'loud'")
    assert all(name in message for name in ("hub.prot", "hub.port", "log.level"))


@pytest.mark.parametrize("content", [b"\xff\xfe", b'[hub]\nhost = "\xe9"'])
def test_a_file_that_is_not_utf_8_is_told(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_settings(file)


def test_a_folder_in_its_place_is_told(file: Path) -> None:
    file.mkdir()
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_settings(file)


def test_the_rendered_file_says_every_key_and_changes_nothing(file: Path) -> None:
    text = render_default_toml()
    file.write_text(text)
    assert load_settings(file) == Settings()
    file.write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    assert load_settings(file) == Settings()
    for spec in setting_specs():
        assert f"# {spec.key} = " in text
        assert spec.meaning in text


@pytest.mark.parametrize(
    "spec", [spec for spec in setting_specs() if (spec.low, spec.high) != (None, None)], ids=lambda spec: spec.name
)
def test_every_bound_is_enforced(file: Path, spec: SettingSpec) -> None:
    outside = [bound + step for bound, step in ((spec.low, -1), (spec.high, 1)) if bound is not None]
    for value in outside:
        number = int(value) if isinstance(spec.default, int) else value
        assert spec.name in refusal(file, f"[{spec.table}]\n{spec.key} = {number}")
    for value in (bound for bound in (spec.low, spec.high) if bound is not None):
        number = int(value) if isinstance(spec.default, int) else value
        file.write_text(f"[{spec.table}]\n{spec.key} = {number}")
        assert getattr(getattr(load_settings(file), spec.table), spec.key) == value
