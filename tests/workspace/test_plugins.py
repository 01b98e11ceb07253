"""What a workspace's plugins are, found without running them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.core.settings import Settings
from parley.workspace import discovery
from parley.workspace.config import load_settings
from parley.workspace.layout import Workspace
from parley.workspace.plugin_files import MODULE_BYTES_MAX, MODULE_FILES_MAX
from parley.workspace.plugins import LoadedPlugin, load_plugins, measure, needs_trust

ENRICH = "def enrich(message, config):\n    return []\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "work"
    root.mkdir()
    return discovery.create(root)


def configure(workspace: Workspace, module: str, *lines: str, kind: str = "linkifier") -> Settings:
    """Settings with one plugin, ``own``."""
    table = ["[[plugins]]", 'name = "own"', f'type = "{kind}"', f"module = '{module}'", *lines]
    workspace.config.write_text("\n".join(table) + "\n")
    return load_settings(workspace.config)


def write(workspace: Workspace, path: str, text: str | bytes = ENRICH) -> Path:
    file = workspace.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def load(workspace: Workspace, settings: Settings, *, trusted: bool = True) -> LoadedPlugin:
    (plugin,) = load_plugins(workspace, settings, lambda _: trusted)
    return plugin


def test_a_file_is_ready_once_it_is_trusted(workspace: Workspace) -> None:
    write(workspace, "plugins/own.py")
    plugin = load(workspace, configure(workspace, "plugins/own.py"))
    assert (plugin.state, plugin.problem, plugin.entry) == ("ready", None, "own")
    assert (plugin.source, plugin.function, plugin.name) == ("plugins/own.py", "enrich", "own")
    assert plugin.files == {"own.py": ENRICH.encode()}


def test_a_package_comes_with_all_of_its_files_but_what_is_hidden_or_compiled(workspace: Workspace) -> None:
    write(workspace, "plugins/own/__init__.py", "from own.inner.work import enrich\n")
    write(workspace, "plugins/own/inner/work.py")
    write(workspace, "plugins/own/words.txt", "a\nb\n")
    write(workspace, "plugins/own/.secret", "no")
    write(workspace, "plugins/own/__pycache__/work.cpython-311.pyc", b"\0")
    plugin = load(workspace, configure(workspace, "plugins/own/"))
    assert (plugin.state, plugin.entry) == ("ready", "own")
    assert sorted(plugin.files) == ["own/__init__.py", "own/inner/work.py", "own/words.txt"]


def test_what_nobody_trusts_is_neither_run_nor_parsed(workspace: Workspace) -> None:
    write(workspace, "own.py", "this is (not Python")
    settings = configure(workspace, "own.py")
    assert load(workspace, settings, trusted=False).state == "untrusted"
    assert load(workspace, settings, trusted=True).state == "broken"


def test_the_digest_that_was_read_is_the_one_that_is_asked_about(workspace: Workspace) -> None:
    write(workspace, "own.py")
    settings = configure(workspace, "own.py")
    asked: list[str] = []
    load_plugins(workspace, settings, lambda digest: bool(asked.append(digest)))
    assert asked == [measure(workspace, settings).digest]


def test_built_ins_need_no_trust(workspace: Workspace) -> None:
    workspace.config.write_text(
        "[[plugins]]\nname = 'links'\ntype = 'linkifier'\n"
        "[[plugins]]\nname = 'pages'\ntype = 'extractor'\nbuiltin = 'urls'\nenabled = false\n"
    )
    settings = load_settings(workspace.config)

    def unasked(_: str) -> bool:
        raise AssertionError("nobody had to be asked")

    links, pages = load_plugins(workspace, settings, unasked)
    assert not needs_trust(settings)
    assert (links.state, links.entry, links.source) == ("ready", "parley.plugin.builtin.links", "built-in")
    assert (pages.state, pages.entry, pages.function) == ("disabled", "parley.plugin.builtin.urls", "extract")


def test_a_plugin_that_is_switched_off_needs_no_trust_and_has_no_problem(workspace: Workspace) -> None:
    settings = configure(workspace, "missing.py", "enabled = false")
    assert not needs_trust(settings)
    assert (load(workspace, settings).state, load(workspace, settings).problem) == ("disabled", None)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def enrich(message, config)\n", "own.py, line 1: expected ':'"),
        ("x = 1\n", "own.py has no function enrich(message, config)"),
        ("def extract(message, config): ...\n", "own.py has no function enrich(message, config)"),
        ("class enrich: ...\n", "own.py has no function enrich(message, config)"),
        ("class Own:\n    def enrich(message, config): ...\n", "own.py has no function enrich"),
        ("enrich: int\n", "own.py has no function enrich"),
        ("\n\ndef enrich(message): ...\n", "own.py, line 3: enrich must take two arguments, (message, config)"),
        ("def enrich(a, b, c): ...\n", "enrich must take two arguments"),
        ("def enrich(a, b, *, c): ...\n", "enrich must take two arguments"),
        ("def enrich(message, *, config): ...\n", "enrich must take two arguments"),
        (b"x = 1\0\n", "null bytes"),
        (b"x = '\xff'\n", "own.py, line 1: (unicode error)"),
        ("(" * 5000, "own.py, line 1: too many nested parentheses"),
        ("-" * 200_000 + "1", ""),
    ],
)
def test_source_that_cannot_work_is_told(workspace: Workspace, source: str | bytes, told: str) -> None:
    write(workspace, "own.py", source)
    plugin = load(workspace, configure(workspace, "own.py"))
    assert plugin.state == "broken"
    assert told in (plugin.problem or "")


@pytest.mark.parametrize(
    "source",
    [
        "async def enrich(message, config): ...\n",
        "def enrich(message, config, extra=None): ...\n",
        "def enrich(*args): ...\n",
        "def enrich(message, /, config, *, more=1): ...\n",
        "from elsewhere import enrich\n",
        "from elsewhere import work as enrich\n",
        "enrich = lambda message, config: []\n",
        "enrich: object = print\n",
        "try:\n    import json\nexcept ImportError:\n    pass\nelse:\n    def enrich(message, config): ...\n",
        "text = '\\d'\ndef enrich(message, config): ...\n",
    ],
)
def test_every_way_to_have_the_function_counts(workspace: Workspace, source: str) -> None:
    write(workspace, "own.py", source)
    assert load(workspace, configure(workspace, "own.py")).state == "ready"


def test_a_mistake_in_another_file_of_a_package_is_found(workspace: Workspace) -> None:
    write(workspace, "own/__init__.py")
    write(workspace, "own/inner.py", "def (")
    assert "own/inner.py, line 1" in (load(workspace, configure(workspace, "own")).problem or "")


def outside(workspace: Workspace) -> None:
    target = workspace.root.parent / "elsewhere.py"
    target.write_text(ENRICH)
    (workspace.root / "own.py").symlink_to(target)


def folder_outside(workspace: Workspace) -> None:
    target = workspace.root.parent / "elsewhere"
    target.mkdir()
    (target / "own.py").write_text(ENRICH)
    (workspace.root / "linked").symlink_to(target)


def file_of_package_outside(workspace: Workspace) -> None:
    target = workspace.root.parent / "secret"
    target.write_text("s")
    write(workspace, "own/__init__.py")
    (workspace.root / "own" / "data").symlink_to(target)


def link_to_state(workspace: Workspace) -> None:
    write(workspace, "own/__init__.py")
    workspace.token.write_text("secret")
    (workspace.root / "own" / "data").symlink_to(workspace.token)


def many_files(workspace: Workspace) -> None:
    write(workspace, "own/__init__.py")
    for number in range(MODULE_FILES_MAX):
        write(workspace, f"own/{number}.txt", "")


def many_folders(workspace: Workspace) -> None:
    """Each in the one before."""
    write(workspace, "own/__init__.py")
    (workspace.root / "own" / "/".join("d" * MODULE_FILES_MAX)).mkdir(parents=True)


def name_of_two_lines(workspace: Workspace) -> None:
    write(workspace, "own/__init__.py")
    write(workspace, "own/a.txt\n    network: no", "")


def name_that_is_no_text(workspace: Workspace) -> None:
    write(workspace, "own/__init__.py")
    write(workspace, os.fsdecode(b"own/\xff.txt"), "")


def file_of_the_workspace(workspace: Workspace) -> None:
    write(workspace, "own/__init__.py")
    write(workspace, "secrets.env", "KEY=1")
    (workspace.root / "own" / "data").symlink_to("../secrets.env")


def large_package(workspace: Workspace) -> None:
    write(workspace, "own/__init__.py")
    for name in ("a", "b"):
        write(workspace, f"own/{name}.bin", b"x" * (MODULE_BYTES_MAX // 2))


def link_to_itself(workspace: Workspace) -> None:
    (workspace.root / "own.py").symlink_to("own.py")


def pipe(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "own.py")


def linked_folder(workspace: Workspace) -> None:
    write(workspace, "own/__init__.py")
    write(workspace, "own/inner/a.py")
    (workspace.root / "own" / "more").symlink_to(workspace.root / "own" / "inner")


@pytest.mark.parametrize(
    ("make", "module", "told"),
    [
        (None, "own.py", "own.py does not exist"),
        (None, "deep/own.py", "deep/own.py does not exist"),
        (outside, "own.py", "own.py leads out of the workspace, to "),
        (folder_outside, "linked/own.py", "linked/own.py leads out of the workspace, to "),
        (file_of_package_outside, "own", "own/data leads out of the workspace, to "),
        (link_to_state, "own", "own/data leads to the state folder"),
        (None, ".", "leads to the state folder"),
        (None, ".parley", "leads to the state folder"),
        (lambda w: write(w, ".parley/own.py"), ".parley/own.py", "leads to the state folder"),
        (lambda w: write(w, "own.txt"), "own.txt", "own.txt is neither a .py file nor a folder with __init__.py"),
        (lambda w: write(w, "own/x.py"), "own", "own is a folder without __init__.py"),
        (lambda w: write(w, "my-own.py"), "my-own.py", "my-own is not a name in Python"),
        (lambda w: write(w, "class.py"), "class.py", "class is not a name in Python"),
        (lambda w: write(w, "json.py"), "json.py", "json.py has the name of a module that it may need"),
        (lambda w: write(w, "parley/__init__.py"), "parley", "parley has the name of a module"),
        (lambda w: write(w, "own.py", b"#" * (MODULE_BYTES_MAX + 1)), "own.py", "larger than 4 MiB"),
        (large_package, "own", "larger than 4 MiB"),
        (many_files, "own", f"own has more than {MODULE_FILES_MAX} files"),
        (many_folders, "own", f"own has more than {MODULE_FILES_MAX} files"),
        (name_of_two_lines, "own", r"own has a file whose name cannot be shown: 'a.txt\n    network: no'"),
        (name_that_is_no_text, "own", r"own has a file whose name cannot be shown: '\udcff.txt'"),
        (file_of_the_workspace, "own", "own/data leads out of its module, to "),
        (link_to_itself, "own.py", "own.py"),
        (pipe, "own.py", "own.py is not a plain file"),
        (linked_folder, "own", "own/more is not a plain file"),
    ],
)
def test_a_module_that_cannot_be_used_breaks_its_plugin(
    workspace: Workspace, make: Callable[[Workspace], object] | None, module: str, told: str
) -> None:
    if make is not None:
        make(workspace)
    settings = configure(workspace, module)
    for trusted in (False, True):
        plugin = load(workspace, settings, trusted=trusted)
        assert plugin.state == "broken"
        assert told in (plugin.problem or "")
        assert plugin.files == {}


def test_a_link_inside_the_workspace_is_followed(workspace: Workspace) -> None:
    write(workspace, "real/thing.py")
    (workspace.root / "own.py").symlink_to("real/thing.py")
    plugin = load(workspace, configure(workspace, "own.py"))
    assert (plugin.state, plugin.entry, list(plugin.files)) == ("ready", "own", ["own.py"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_told(workspace: Workspace) -> None:
    write(workspace, "own.py").chmod(0)
    assert "cannot be read: Permission denied" in (load(workspace, configure(workspace, "own.py")).problem or "")


def test_the_digest_changes_with_every_file_and_every_setting_that_it_is_about(workspace: Workspace) -> None:
    write(workspace, "own/__init__.py")
    data = write(workspace, "own/data.txt", "1")
    settings = configure(workspace, "own")
    seen = {measure(workspace, settings).digest}
    data.write_text("2")
    seen.add(measure(workspace, settings).digest)
    data.rename(data.with_name("other.txt"))
    seen.add(measure(workspace, settings).digest)
    write(workspace, "own/new.txt", "")
    seen.add(measure(workspace, settings).digest)
    workspace.config.write_text(workspace.config.read_text() + "# said\n")
    seen.add(measure(workspace, settings).digest)
    assert len(seen) == 5
    assert measure(workspace, settings).digest in seen


def test_settings_that_did_not_come_from_the_file_have_a_digest_of_their_own(workspace: Workspace) -> None:
    """A file that is swapped while it is being read, or ``--config``, cannot borrow the trust in the one on disk."""
    write(workspace, "own.py")
    with_network = configure(workspace, "own.py", "network = true")
    without = configure(workspace, "own.py")
    assert measure(workspace, with_network).digest != measure(workspace, without).digest


def test_each_file_is_measured_by_its_path_from_the_root(workspace: Workspace) -> None:
    write(workspace, "plugins/own/__init__.py")
    settings = configure(workspace, "./plugins/own")
    assert list(measure(workspace, settings).files) == ["parley.toml", "./plugins/own/__init__.py"]
    (workspace.root / "plugins/own/__init__.py").unlink()
    assert measure(workspace, settings).files["./plugins/own"] == ""
