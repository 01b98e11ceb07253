"""``ui``: a link that works once, in the browser or on the terminal."""

import sys
from pathlib import Path

import httpx
import pytest

from parley.client import Client
from parley.workspace import discovery
from tests.cli.conftest import Parley, Ran, Serving, parley_process
from tests.client.hubs import DEADLINE_SECONDS

SECRET_LINK = "/ui#code="


def log_in(url: str) -> int:
    """Opens the link as the page does."""
    base, code = url.strip().split(SECRET_LINK)
    answer = httpx.post(f"{base}/ui/login", json={"code": code}, headers={"Origin": base}, timeout=DEADLINE_SECONDS)
    return answer.status_code


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that writes down what it was asked to open."""
    opened = tmp_path / "opened"
    program = tmp_path / "browser"
    program.write_text(f"#!{sys.executable}\nimport sys\nopen({str(opened)!r}, 'w').write(sys.argv[1])\n")
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(program))
    return opened


@pytest.fixture
def no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", str(tmp_path / "missing"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)


def ui(hub: Serving, *options: str) -> Ran:
    """In a process of its own: the browsers that there are, are looked up once per process."""
    return parley_process("ui", "--workspace", hub.root, *options)


def test_ui_opens_the_browser_with_a_link_that_logs_in_once(hub: Serving, browser: Path) -> None:
    ran = ui(hub)
    assert (ran.code, ran.stdout) == (0, "")
    assert "--print-url" in ran.stderr
    url = browser.read_text()
    assert url.split(SECRET_LINK)[1] not in ran.stderr
    assert [log_in(url), log_in(url)] == [200, 401]


def test_print_url_prints_the_link_alone_and_opens_nothing(hub: Serving, browser: Path) -> None:
    ran = ui(hub, "--print-url")
    assert (ran.code, ran.stderr, ran.stdout.count("\n")) == (0, "", 1)
    assert not browser.exists()
    assert log_in(ran.stdout) == 200


@pytest.mark.usefixtures("no_browser")
def test_where_no_browser_can_be_opened_the_link_is_printed(hub: Serving) -> None:
    ran = ui(hub)
    assert ran.code == 0
    assert "No browser" in ran.stderr
    assert log_in(ran.stdout) == 200


def test_json_has_the_link_and_whether_a_browser_took_it(hub: Serving, browser: Path) -> None:
    opened = ui(hub, "--json").json
    assert opened == {"status": "ok", "url": browser.read_text(), "opened": True}
    printed = ui(hub, "--json", "--print-url").json
    assert printed == {"status": "ok", "url": printed["url"], "opened": False}
    assert log_in(printed["url"]) == 200


def test_ui_without_a_hub_exits_3_and_says_how_to_start_one(parley: Parley, tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)
    ran = parley("ui", "--workspace", tmp_path)
    assert (ran.code, ran.stdout) == (3, "")
    assert "`parley up`" in ran.stderr
    assert parley("ui", "--workspace", tmp_path, "--print-url", "--json").json["code"] == "HUB_NOT_RUNNING"
    assert not workspace.server_file.exists()


def test_the_client_has_the_link_too(hub: Serving) -> None:
    with Client(hub.root) as client:
        link = client.page_link()
    assert link.url.endswith(f"{SECRET_LINK}{link.code}")
    assert link.expires_in_seconds == 300
    assert log_in(link.url) == 200
