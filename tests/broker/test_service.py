"""The broker as a service of its user: the file is right, and is not written for settings that are wrong."""

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parley.app.broker_service import broker_service, install_service, uninstall_service
from parley.app.services import CI_VARIABLES, REFUSALS, launchd_agent, systemd_unit
from parley.core.errors import ConfigInvalid, StartupFailed

URL = "postgresql://somebody:secret@host/db"


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in CI_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_the_service_is_written_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "broker"
    installed = install_service(folder, start=False)
    unit = tmp_path / "config" / "systemd" / "user" / "parley-broker.service"
    assert (installed["path"], installed["started"], installed["commands"]) == (str(unit), False, [])
    text = unit.read_text()
    assert f'"{sys.executable}" "-P" "-m" "parley" "broker" "up" "--folder" "{folder}"' in text
    assert "StandardOutput=null" in text
    assert folder.stat().st_mode & 0o777 == 0o700
    assert uninstall_service(folder)["removed"] is True
    assert uninstall_service(folder)["removed"] is False
    monkeypatch.setenv("CI", "true")
    with pytest.raises(StartupFailed, match="build machine"):
        install_service(folder, start=False)
    assert install_service(folder, allow_ci=True, start=False)["path"] == str(unit)


def test_settings_that_are_wrong_are_told_before_anything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "broker.toml").write_text("[server]\nspeed = 3\n")
    with pytest.raises(ConfigInvalid):
        install_service(folder, start=False)
    assert not (tmp_path / "config").exists()


def test_it_may_write_where_its_file_is_and_shows_no_password(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "broker.toml").write_text(f"[store]\naddress = '{tmp_path / 'data' / 'meshes.db'}'\n")
    text = Path(install_service(folder, start=False)["path"]).read_text()
    assert [line for line in text.splitlines() if line.startswith("ReadWritePaths")] == [
        f'ReadWritePaths="{folder}"',
        f'ReadWritePaths="{tmp_path / "data"}"',
    ]
    (folder / "broker.toml").write_text(f"[store]\naddress = '{URL}'\n")
    text = Path(install_service(folder, start=False)["path"]).read_text()
    assert "secret" not in text
    assert text.count("ReadWritePaths") == 1


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    folder = tmp_path / 'a "strange" %home $of mine'
    unit = tmp_path / "parley-broker.service"
    unit.write_text(systemd_unit(broker_service(folder, str(folder / "broker.db"))))
    assert f"RestartPreventExitStatus={' '.join(map(str, REFUSALS))}" in unit.read_text()
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        checked = subprocess.run(
            [analyze, "--user", "verify", str(unit)],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (checked.returncode, checked.stderr) == (0, "")


def test_the_property_list_is_one_and_waits_between_two_starts(tmp_path: Path) -> None:
    found = plistlib.loads(launchd_agent(broker_service(tmp_path / "a <b> & c", URL)).encode())
    assert found["Label"] == "org.parley.broker"
    assert found["ProgramArguments"][4:6] == ["broker", "up"]
    assert found["ProgramArguments"][7].endswith("a <b> & c")
    assert found["KeepAlive"] == {"SuccessfulExit": False}
    assert found["ThrottleInterval"] >= 60
    assert found["StandardOutPath"] == "/dev/null"


def test_the_command_of_the_unit_serves_and_prints_no_invite_into_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "broker.toml").write_text("[server]\nport = 0\n")
    text = Path(install_service(folder, start=False)["path"]).read_text()
    (line,) = [each for each in text.splitlines() if each.startswith("ExecStart=")]
    with subprocess.Popen(shlex.split(line.removeprefix("ExecStart=")), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "The broker is running" in process.stdout.readline()
        process.terminate()
        assert process.wait(60) == 0
    log = (folder / "broker.log").read_text()
    assert '"msg":"started"' in log
    assert "parley-invite" not in log
