"""``parley.toml``: what is accepted, and how a mistake is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from parley.core.errors import ConfigInvalid
from parley.core.settings import HubSettings, PluginSettings, Settings, SettingSpec, setting_specs
from parley.workspace.config import load_settings


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


@pytest.mark.parametrize(
    "name", ["parley.example.com", "parley.example.com:80", "localhost:8443", "[::1]:8000", "a:1", "a:65535", "a:4433"]
)
def test_a_trusted_host_is_a_name_as_a_browser_writes_it(file: Path, name: str) -> None:
    file.write_text(f"[hub]\ntrusted_hosts = ['{name}']")
    assert load_settings(file).hub.trusted_hosts == (name,)


@pytest.mark.parametrize(
    "name",
    ["x.example:443", "[::1]:443", "x:0", "x:00", "x:08443", "x:65536", "x:99999", "x:", "X.example", "x/y", ""],
)
def test_a_trusted_host_that_no_browser_would_write_is_refused_with_the_reason(file: Path, name: str) -> None:
    told = refusal(file, f"[hub]\ntrusted_hosts = ['good.example', '{name}']")
    assert told.startswith("hub.trusted_hosts must be a list of names such as")
    assert "in lower case" in told
    assert "1 to 65,535" in told
    assert "443" in told.partition(", not [")[0]


def test_all_mistakes_are_told_at_once(file: Path) -> None:
    message = refusal(file, "[hub]\nprot = 1\nport = 70000\n[log]\nlevel = 'loud'")
    assert all(name in message for name in ("hub.prot", "hub.port", "log.level"))


@pytest.mark.parametrize("content", [b"\xff\xfe", b'[hub]\nhost = "\xe9"'])
def test_a_file_that_is_not_utf_8_is_told(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_settings(file)


def test_a_value_of_a_wrong_kind_is_told_as_it_was_written(file: Path) -> None:
    file.write_text("[hub]\nport = [true, 'a', { b = 1 }]\n")
    with pytest.raises(ConfigInvalid, match=r'^hub\.port must be a whole number, not \[true, "a", \{ b = 1 \}\]$'):
        load_settings(file)


def test_a_folder_in_its_place_is_told(file: Path) -> None:
    file.mkdir()
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_settings(file)


@pytest.mark.parametrize(
    "spec", [spec for spec in setting_specs() if (spec.low, spec.high) != (None, None)], ids=lambda spec: spec.name
)
def test_every_bound_is_enforced(file: Path, spec: SettingSpec) -> None:
    head, name = f"[{spec.table}]", spec.name
    if spec.table == "plugins":
        head, name = "[[plugins]]\nname = 'links'\ntype = 'linkifier'", f"plugins.links.{spec.key}"
    outside = [bound + step for bound, step in ((spec.low, -1), (spec.high, 1)) if bound is not None]
    for value in outside:
        assert f"{name} must be" in refusal(file, f"{head}\n{spec.key} = {spec.kind(value)}")
    for value in (bound for bound in (spec.low, spec.high) if bound is not None):
        file.write_text(f"{head}\n{spec.key} = {spec.kind(value)}")
        settings = load_settings(file)
        section = settings.plugins[0] if spec.table == "plugins" else getattr(settings, spec.table)
        assert getattr(section, spec.key) == value


def test_a_plugin_has_all_that_its_table_says(file: Path) -> None:
    file.write_text(
        "[[plugins]]\nname = 'tickets'\ntype = 'extractor'\nmodule = './plugins/tickets.py'\nenabled = false\n"
        "required = true\ndeadline_seconds = 2\nnetwork = true\nmemory_bytes = 134217728\n"
        "[plugins.config]\nprefix = 'T'\nnested = { list = [1, 2.5, true] }\n"
        "[[plugins]]\nname = 'urls'\ntype = 'extractor'\n"
        "[[plugins]]\nname = 'refs'\ntype = 'linkifier'\nbuiltin = 'links'\n"
    )
    tickets, urls, refs = load_settings(file).plugins
    assert tickets == PluginSettings(
        "tickets",
        "extractor",
        enabled=False,
        required=True,
        module="./plugins/tickets.py",
        config={"prefix": "T", "nested": {"list": [1, 2.5, True]}},
        deadline_seconds=2.0,
        network=True,
        memory_bytes=134_217_728,
    )
    assert (tickets.source, urls.source, refs.source) == ("./plugins/tickets.py", "built-in", "built-in")
    assert (urls.builtin_name, refs.builtin_name) == ("urls", "links")


def plugin(*lines: str) -> str:
    return "\n".join(("[[plugins]]", "name = 'own'", "type = 'linkifier'", *lines))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plugins = 3", "plugins must be a list of tables: [[plugins]]"),
        ("[plugins]\nname = 'x'", "plugins must be a list of tables: [[plugins]]"),
        ("[[plugins]]\ntype = 'linkifier'", "plugins.#1.name is missing"),
        ("[[plugins]]\nname = 'x'", "plugins.x.type is missing"),
        ("[[plugins]]\nname = 3\ntype = 'linkifier'", "plugins.#1.name must be a text, not 3"),
        (
            "[[plugins]]\nname = 'Big One'\ntype = 'linkifier'",
            'plugins.Big One.name must be 1 to 64 of a-z, 0-9, _ and -, not "Big One"',
        ),
        (f"[[plugins]]\nname = '{'x' * 65}'\ntype = 'linkifier'", "must be 1 to 64 of"),
        ("[[plugins]]\nname = ''\ntype = 'linkifier'", "plugins.#1.name must be 1 to 64 of"),
        ("[[plugins]]\nname = 'x'\ntype = 'enricher'", "plugins.x.type must be one of linkifier, extractor"),
        (plugin(), "plugins.own needs a module; only links, urls are built in"),
        (plugin("module = 'a.py'", "builtin = 'links'"), "plugins.own has both a module and a builtin"),
        (plugin("builtin = 'lynx'"), 'plugins.own.builtin must be one of links, urls, not "lynx"'),
        (plugin("builtin = 'urls'"), "plugins.own.type must be extractor for the built-in urls"),
        (plugin("module = 'a.py'", "modul = 'a.py'"), "plugins.own.modul is not a setting; did you mean module?"),
        (plugin("module = '/etc/a.py'"), "plugins.own.module must be a path inside the workspace"),
        (plugin("module = '../a.py'"), "plugins.own.module must be a path inside the workspace"),
        (plugin("module = 'a/../../b.py'"), "plugins.own.module must be a path inside the workspace"),
        (plugin("module = 'a/..'"), "plugins.own.module must be a path inside the workspace"),
        (plugin("module = ''"), "plugins.own.module must be a path inside the workspace"),
        (plugin("module = 'a.py'", "enabled = 1"), "plugins.own.enabled must be true or false, not 1"),
        (plugin("module = 'a.py'", "config = 1"), "plugins.own.config must be a table of"),
        (plugin("module = 'a.py'", "config = { at = 2026-01-01 }"), "plugins.own.config must be a table of"),
        (plugin("module = 'a.py'", "config = { big = 9007199254740992 }"), "plugins.own.config must be a table of"),
        (plugin("module = 'a.py'", "config = { big = [inf] }"), "plugins.own.config must be a table of"),
        (
            plugin("builtin = 'links'", "config = { path = true }"),
            "plugins.own.config.path is not a setting; did you mean paths?",
        ),
        (plugin("builtin = 'links'", "config = { code = 1 }"), "plugins.own.config.code must be true or false, not 1"),
        (
            "\n".join([plugin("module = 'a.py'"), plugin("module = 'b.py'")]),
            "plugins.own is there twice; each plugin needs a name of its own",
        ),
    ],
)
def test_a_mistake_in_a_plugin_is_named(file: Path, text: str, told: str) -> None:
    assert told in refusal(file, text)


def test_mistakes_of_all_plugins_are_told_at_once(file: Path) -> None:
    message = refusal(file, f"{plugin('enabled = 3')}\n[[plugins]]\nname = 'two'\n[hub]\nprot = 1")
    assert all(name in message for name in ("plugins.own.enabled", "plugins.two.type", "hub.prot"))


def test_a_path_may_have_dots_that_do_not_lead_up(file: Path) -> None:
    file.write_text(plugin("module = 'a/..b/c...py'"))
    assert load_settings(file).plugins[0].module == "a/..b/c...py"
