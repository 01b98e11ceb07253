"""What a jail shows: the interpreter, its libraries, what was named, and nothing beside it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from parley.sandbox import JailError, Policy, run
from parley.sandbox.view import View, follow, interpreter, make_view, package_folder
from tests.sandbox.conftest import patient
from tests.sandbox.ordinary import UID


def listing(policy: Policy, *folders: Path | str) -> list[list[str]]:
    code = "import json, os, sys; print(json.dumps([sorted(os.listdir(folder)) for folder in sys.argv[1:]]))"
    finished = run([str(interpreter()), "-I", "-S", "-c", code, *map(str, folders)], policy)
    return json.loads(finished.stdout or finished.stderr)


def test_links_are_followed_and_made_again(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "deep" / "file").write_text("x")
    (tmp_path / "second").symlink_to("real")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    assert follow([tmp_path / "first" / "deep"]) == View(
        (tmp_path / "real" / "deep",), ((tmp_path / "first", tmp_path / "real"),)
    )


def test_what_lies_under_another_is_shown_with_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    (tmp_path / "folder" / "link").symlink_to("file")
    paths = [tmp_path / "folder" / "link", tmp_path / "folder", tmp_path / "absent"]
    assert follow(paths) == View((tmp_path / "folder",), ())


@pytest.mark.parametrize("path", ["/", "/dev", "relative", "/no/such/path"])
def test_some_paths_cannot_be_shown(path: str) -> None:
    with pytest.raises(JailError) as raised:
        make_view(Policy(readable=(Path(path),)))
    assert raised.value.reason == "unavailable"


def test_a_hidden_path_under_a_shown_one_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "project" / ".parley"
    state.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path)
    for shown in (tmp_path, tmp_path / "project", state, tmp_path / "link" / "project"):
        for hidden in (state, tmp_path / "link" / "project" / ".parley", state / "token"):
            with pytest.raises(JailError, match=r"would show .*, which lies under"):
                make_view(Policy(readable=(shown,), hidden=(hidden,)))


def test_a_shown_path_beside_a_hidden_one_is_not_refused(tmp_path: Path) -> None:
    for name in ("project", "project-other"):
        (tmp_path / name).mkdir()
    view = make_view(Policy(readable=(tmp_path / "project-other",), hidden=(tmp_path / "project",)))
    assert tmp_path / "project-other" in view.shown


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../outside", "a/../../b", "nul\0"])
def test_a_file_has_a_name_under_app(name: str) -> None:
    with pytest.raises(ValueError, match="under /app"):
        Policy(files={name: b""})


@pytest.mark.usefixtures("sandbox")
def test_a_named_path_is_shown_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "file").write_text("x")
    (tmp_path / "beside").write_text("secret")
    (tmp_path / "link").symlink_to("shown")
    (tmp_path / "shown" / "out").symlink_to(tmp_path / "beside")
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_mode & 0o077 == 0:
            path.chmod(0o755)
    policy = patient(readable=(tmp_path / "link",))
    assert listing(policy, tmp_path, tmp_path / "link") == [["link", "shown"], ["file", "out"]]
    finished = run([str(interpreter()), "-I", "-S", "-c", f"open({str(tmp_path / 'shown' / 'out')!r})"], policy)
    assert b"FileNotFoundError" in finished.stderr


@pytest.mark.usefixtures("sandbox")
def test_of_an_editable_install_only_the_package_is_shown() -> None:
    package = package_folder()
    shown = listing(patient(), package.parent, package)
    assert "sandbox" in shown[1]
    if package.parent.name != "site-packages":
        assert shown[0] == ["parley"]


@pytest.mark.usefixtures("sandbox")
def test_the_root_holds_nothing_unexpected() -> None:
    top = {"app", "dev", "scratch", *(Path(path).parts[1] for path in make_view(Policy()).shown)}
    links = {link.parts[1] for link, _ in make_view(Policy()).links}
    root, etc, devices = listing(patient(), "/", "/etc", "/dev")
    assert set(root) == top | links
    assert set(etc) <= {"ld.so.cache", "localtime"}
    assert devices == ["null", "random", "urandom", "zero"]


@pytest.mark.usefixtures("sandbox")
def test_the_interpreter_of_a_virtual_environment_works_under_its_own_name() -> None:
    finished = run([sys.executable, "-I", "-c", "import msgspec, sys; print(sys.prefix)"], patient())
    assert finished.stdout.decode().strip() == sys.prefix


@pytest.mark.usefixtures("sandbox")
def test_a_path_where_the_jail_is_put_together_can_be_shown(tmp_path: Path) -> None:
    """The new root is built over a folder of the old one; what is shown is taken before."""
    assert listing(patient(readable=(Path("/proc/sys/kernel"),)), "/proc") == [["sys"]]


@pytest.mark.usefixtures("sandbox")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a program that runs as root")
def test_a_program_with_the_user_bit_gives_nothing() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "id")
        shutil.copy(shutil.which("id") or "/usr/bin/id", program)
        program.chmod(0o4755)
        Path(folder).chmod(0o755)
        plainly = subprocess.run([program, "-u"], user=UID, extra_groups=(), capture_output=True, check=True)
        inside = run([str(program), "-u"], patient(readable=(program,)))
    assert plainly.stdout == b"0\n"
    assert inside.stdout.strip().isdigit()
    assert inside.stdout != b"0\n"
