"""Gate J: nothing that a caller sends is executed, and nothing that is secret comes out."""

import ast
import json
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

import parley
from parley.core.ids import new_token
from tests.hub.hubs import DEADLINE_SECONDS, OpenHub, rows

INJECTIONS = [
    "'; DROP TABLE messages; --",
    "'; DROP TABLE channels; --",
    '"; DELETE FROM events; --',
    "' OR '1'='1",
    "%' UNION SELECT value FROM meta --",
]
CONTENT = "content-that-no-log-may-hold"
EDITED = "edited-content-that-no-log-may-hold"


@pytest.mark.parametrize("text", INJECTIONS)
async def test_part_x_sql_in_any_text_field_is_text(hub: OpenHub, text: str) -> None:
    api = hub.api
    channel = await api.channel(text, description=text)
    topic = await api.topic(channel, text)
    message = await api.post(topic, text, sender=text)
    await api.call(
        "POST",
        f"/api/v1/topics/{topic}/attachments",
        {"kind": text, "key": text, "value_json": {text: text}, "dedupe_key": text},
        status=201,
    )
    await api.patch(message["id"], "edit", content_raw=text + text)
    await api.call("PATCH", f"/api/v1/topics/{topic}", {"title": text + "2"}, headers={"Idempotency-Key": "k'--"})
    assert (await api.get("/api/v1/search", query=text, channel=text))["messages"] != []
    for path in (
        f"/api/v1/topics/{text}",
        f"/api/v1/messages/{text}",
        f"/api/v1/channels/{text}/topics",
        f"/api/v1/topics/{text}/attachments?kind={text}",
        f"/api/v1/messages?topic_id={text}",
    ):
        assert (await api.client.get(path)).status_code in (200, 404)
    deleted = await api.patch(message["id"], "delete", actor=text)
    assert deleted["message"]["deleted_by"] == text
    assert [len(rows(hub.workspace, f"SELECT * FROM {table}")) for table in ("channels", "topics", "messages")] == [
        1,
        1,
        1,
    ]
    assert hub.fold_problems() == []


def test_gate_j_every_statement_is_constant_text() -> None:
    """What is formatted into SQL comes from constants of the module, never from a parameter of a function."""
    suspicious: list[str] = []
    for room in ("hub", "workspace"):
        for path in sorted((Path(parley.__file__).parent / room).rglob("*.py")):
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    suspicious += [f"{path.name}:{line}" for line in _formatted_parameters(function)]
    assert suspicious == []


def test_control_a_parameter_that_is_formatted_into_a_statement_is_found() -> None:
    text = "def find(db, title: str):\n    db.execute(f'SELECT * FROM topics WHERE title = {title}')"
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert list(_formatted_parameters(function)) == [2]


def _formatted_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """Lines where ``execute`` gets text with one of the function's own ``str`` parameters formatted into it."""
    texts = {
        argument.arg
        for argument in [*function.args.args, *function.args.kwonlyargs]
        if argument.annotation is not None and "str" in ast.unparse(argument.annotation)
    } - {"table", "name", "statement", "rows"}
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.startswith("execute"):
            for part in ast.walk(call.args[0]) if call.args else ():
                if (
                    isinstance(part, ast.FormattedValue)
                    and {each.id for each in ast.walk(part) if isinstance(each, ast.Name)} & texts
                ):
                    yield call.lineno


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("GET", "/nowhere/{token}", {}),
        ("GET", "/api/v1/topics/none", {}),
        ("POST", "/api/v1/channels", {"content": b"{broken"}),
        ("POST", "/api/v1/channels", {"json": {"name": 5}}),
        ("PATCH", "/api/v1/messages/none", {"json": {"op": "purge"}}),
        ("GET", "/api/v1/messages?limit=abc", {}),
        ("POST", "/api/v1/channels", {"json": {"name": ""}, "headers": {"Idempotency-Key": "a b"}}),
    ],
)
async def test_part_x_an_error_never_echoes_the_token_or_a_path_of_the_machine(
    hub: OpenHub, method: str, path: str, options: dict[str, Any]
) -> None:
    answer = await hub.api.client.request(method, path.format(token="x"), **options)
    assert answer.status_code >= 400
    assert hub.token not in answer.text + str(answer.headers)
    assert str(hub.workspace.root) not in answer.text
    assert "Traceback" not in answer.text


async def test_a_wrong_token_is_not_echoed(hub: OpenHub) -> None:
    wrong = new_token()
    answer = await hub.api.client.get("/api/v1/channels", headers={"Authorization": f"Bearer {wrong}"})
    assert wrong not in answer.text + str(answer.headers)
    assert wrong not in str(hub.log.entries)


async def test_gate_j_the_token_file_is_private_and_long_enough(hub: OpenHub) -> None:
    assert stat.S_IMODE(hub.workspace.token.stat().st_mode) == 0o600
    assert re.fullmatch("[0-9a-f]{64}", hub.workspace.token.read_text().strip())


class BusyHub:
    """A real hub in a process of its own, whose every output is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "parley.toml").write_text('[log]\nlevel = "debug"\nrequests = "all"\n')
        argv = [sys.executable, "-m", "parley", "up", "--workspace", str(folder), "--json", "--no-rate-limit"]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        lines = b""
        while True:
            lines += self.process.stdout.readline()
            try:
                self.announced = json.loads(lines)
                break
            except json.JSONDecodeError:
                assert self.process.poll() is None, lines
        self.stdout = lines
        self.server = json.loads((folder / ".parley" / "server.json").read_text())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server['port']}"

    def stop(self) -> str:
        """Everything it ever wrote: stdout, stderr and log files."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=DEADLINE_SECONDS)
        logs = b"".join(path.read_bytes() for path in (self.folder / ".parley").glob("logs/*"))
        return (self.stdout + out + err + logs).decode()


def _be_busy(hub: BusyHub, secrets: list[str]) -> list[str]:
    """Uses the hub in every way, mistakes included; the texts of all refusals. ``secrets`` gets what it hands out."""
    refusals: list[str] = []
    token = hub.server["auth_token"]
    with httpx.Client(base_url=hub.url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:

        def send(method: str, path: str, **options: Any) -> httpx.Response:
            answer = client.request(method, path, **options)
            if answer.status_code >= 400:
                refusals.append(answer.text + str(answer.headers))
            return answer

        channel = send("POST", "/api/v1/channels", json={"name": CONTENT}).json()["channel"]["id"]
        topic = send("POST", "/api/v1/topics", json={"channel_id": channel, "title": CONTENT}).json()["topic"]["id"]
        body = {"topic_id": topic, "sender": "ann", "content_raw": CONTENT}
        message = send("POST", "/api/v1/messages", json=body).json()["message"]["id"]
        send("PATCH", f"/api/v1/messages/{message}", json={"op": "edit", "content_raw": EDITED})
        send("PATCH", f"/api/v1/messages/{message}", json={"op": "edit", "content_raw": EDITED, "expected_version": 9})
        send("POST", f"/api/v1/topics/{topic}/attachments", json={"kind": "note", "value_json": {"a": CONTENT}})
        send("POST", f"/api/v1/topics/{topic}/attachments", json={"kind": "url", "value_json": {"url": CONTENT}})
        send("POST", "/api/v1/messages", json={**body, "content_raw": CONTENT * 4000})
        send("POST", "/api/v1/messages", json={**body, "sender": f"{CONTENT}\n"})
        send(
            "POST",
            "/api/v1/messages",
            content=f'{{"content_raw":"{CONTENT}'.encode(),
            headers={"Content-Type": "application/json"},
        )
        send("POST", "/api/v1/messages", json={**body, "client_message_id": "k"})
        send("POST", "/api/v1/messages", json={**body, "client_message_id": "k", "content_raw": EDITED})
        send("GET", f"/api/v1/search?query={CONTENT}")
        send("GET", f"/api/v1/search?query={CONTENT}&limit=x&token={token}")
        send("GET", "/api/v1/events?after=0")
        send("GET", f"/health?token={token}")
        send("GET", "/metrics")
        send("PUT", f"/nowhere?token={token}", content=CONTENT.encode())
        send("GET", "/api/v1/channels", headers={"Authorization": f"Bearer {token}x"})
        send("GET", "/api/v1/channels", headers={"Authorization": f"Basic {token}"})
        send("GET", "/api/v1/channels", headers={"Host": "evil.example"})
        feeds = f"ws://127.0.0.1:{hub.server['port']}/ws"
        with connect(f"{feeds}?token={token}", open_timeout=DEADLINE_SECONDS) as feed:
            feed.send(json.dumps({"type": "hello", "after_event_id": 0}))
            assert feed.recv(timeout=DEADLINE_SECONDS)
            feed.send(CONTENT)
        with pytest.raises(WebSocketException):
            connect(f"{feeds}?token={token}x", open_timeout=DEADLINE_SECONDS)
        code = send("POST", "/api/v1/ui/code").json()["code"]
        login = {"json": {"code": code}, "headers": {"Origin": hub.url}}
        cookie = send("POST", "/ui/login", **login).headers["set-cookie"].partition(";")[0]
        send("POST", "/ui/login", **login)
        send("GET", f"/ui?code={code}")
        send("GET", f"/ui/assets/none?{cookie}")
        for headers in ({"Cookie": f"{cookie}x"}, {"Cookie": cookie, "Sec-Fetch-Site": "same-site"}):
            send("GET", "/api/v1/ui/session", headers={"Authorization": "", **headers})
        secrets += [code, cookie.partition("=")[2]]
        send("PATCH", f"/api/v1/messages/{message}", json={"op": "delete", "actor": "ann"})
        send("POST", "/api/v1/token/rotate")
    return refusals


def test_gate_j_no_output_of_a_busy_hub_holds_a_token_or_content(tmp_path: Path) -> None:
    hub = BusyHub(tmp_path)
    try:
        handed_out: list[str] = []
        refusals = _be_busy(hub, handed_out)
        rotated = (tmp_path / ".parley" / "token").read_text().strip()
    finally:
        output = hub.stop()
    assert hub.process.returncode == 0
    assert output.count('"msg":"request"') > 20
    assert rotated != hub.server["auth_token"]
    assert len(refusals) >= 10
    for secret in (hub.server["auth_token"], rotated, CONTENT, EDITED, *handed_out):
        assert secret not in output
        assert not [text for text in refusals if secret in text]


def test_the_command_line_of_a_hub_holds_no_token(tmp_path: Path) -> None:
    hub = BusyHub(tmp_path)
    try:
        command = Path(f"/proc/{hub.process.pid}/cmdline").read_bytes().decode()
        environment = Path(f"/proc/{hub.process.pid}/environ").read_bytes().decode()
    finally:
        hub.stop()
    assert hub.server["auth_token"] not in command + environment
    assert "auth_token" not in hub.announced
