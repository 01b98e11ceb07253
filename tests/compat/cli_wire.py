"""What commands print with ``--json``, found by calling each of them where there is something to print."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

from parley.bus.home import BusHome
from parley.cli.root import run
from tests.broker.process import SECONDS, Process
from tests.compat.daemon_wire import SETTINGS, reached
from tests.compat.recorder import Recorder
from tests.daemon.homes import Home, Room

MAPS: Final = (
    "brokers",
    "broker_features_negotiated",
    "broken_audits",
    "broken_rosters",
    "counts",
    "files",
    "grants",
    "rows",
)
OTHER: Final = frozenset({"hook", "mcp"})
"""Commands that print what other programs' protocols ask for."""


class Shell:
    """Calls commands in this process, with an environment of its own, and keeps what they print."""

    def __init__(self, patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
        self._patch = patch
        self._recorder = recorder

    def at(self, folder: Path, **environment: Path | str) -> None:
        """What is called from now on is called here."""
        self._patch.chdir(folder)
        for name, value in environment.items():
            self._patch.setenv(name, str(value))

    def types(self, command: str, *words: str | Path, code: int = 0) -> Any:
        """What a command prints that ends with this code. ``command`` is its name alone."""
        out, err = io.StringIO(), io.StringIO()
        self._patch.setattr(sys, "stdin", io.StringIO())
        with redirect_stdout(out), redirect_stderr(err):
            ended = run([*command.split(), *map(str, words), "--json"])
        assert ended == code, (command, words, out.getvalue(), err.getvalue())
        printed = json.loads(out.getvalue() or err.getvalue())
        return self.keep(command, code, printed)

    def keep(self, command: str, code: int, printed: Any) -> Any:
        """Takes in what a command printed."""
        if printed.get("status") == "error" and "code" in printed:
            self._recorder.refusal(command, f"exit {code}", printed, printed["code"])
            return printed
        return self._recorder.answer(command, f"exit {code}", printed)


def cli_contract(room: Room) -> dict[str, Any]:
    """Every command but those of the pipeline."""
    recorder = Recorder(MAPS)
    with pytest.MonkeyPatch.context() as patch:
        shell = Shell(patch, recorder)
        place = room.folder / "cli"
        place.mkdir()
        shell.at(place, HOME=place, PARLEY_HOME=place / "parley", XDG_CONFIG_HOME=place / "config")
        _workspace(shell, place / "project")
        _meshes(shell, room)
        _broker(shell, room.process, place)
        _bus(shell, place / "bus")
        _bus_messages(shell, place / "lan")
        _bus_pair(shell, place / "pair")
    return recorder.contract()


def _workspace(shell: Shell, folder: Path) -> None:
    folder.mkdir()
    shell.types("init", folder)
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    shell.at(folder)
    shell.types("status", code=3)
    shell.types("up", "--detach", "--no-rate-limit")
    try:
        shell.types("up", "--detach", code=10)
        shell.types("status")
        shell.types("doctor")
        shell.types("ui", "--print-url")
        shell.types("token rotate")
        _messages(shell)
        _together(shell)
        _programs(shell)
        _plugins(shell, folder)
        _listen(shell, folder)
        shell.types("backup")
    finally:
        shell.types("down")
    shell.types("down")
    shell.types("export", folder / "export.jsonl")
    shell.types("archive", "--before", "0d")
    shell.types("channel create", "late", code=3)
    shell.types("completion", "bash")
    shell.types("try", "--no-pause")
    shell.types("bench", "--messages", "10")


def _messages(shell: Shell) -> None:
    shell.types("channel create", "general")
    shell.types("channel list")
    shell.types("channel create", "general", code=1)
    topics = [shell.types("topic create", name, "--channel", "general")["topic"]["id"] for name in ("a", "b")]
    shell.types("topic list", "--channel", "general")
    shell.types("topic rename", topics[1], "--title", "c")
    say = ("--topic-id", topics[0], "--sender", "ann")
    first = shell.types("msg send", "hello https://example.org", *say)["message_id"]
    shell.types("msg send", "again", *say, "--client-message-id", "k-1", "--reply-to", first)
    shell.types("msg send", "again", *say, "--client-message-id", "k-1", "--reply-to", first)
    gone = shell.types("msg send", "to go", *say)["message_id"]
    shell.types("msg edit", first, "--content", "hello all")
    shell.types("msg edit", first, "--content", "hello", "--expected-version", "9", code=2)
    shell.types("msg edit", "nothing", "--content", "hello", code=1)
    shell.types("msg delete", gone, "--actor", "ann")
    shell.types("msg delete", gone, "--actor", "ann")
    attached = ("--topic-id", topics[0], "--kind", "url", "--value-json", '{"url": "https://example.org"}')
    for _ in range(2):
        shell.types("attachment add", *attached, "--source-message-id", first, "--dedupe-key", "d-1")
    shell.types("attachment add", *attached, "--key", "k", "--dedupe-key", "d-2")
    shell.types("attachment list", "--topic-id", topics[0])
    shell.types("msg tail", "--topic-id", topics[0])
    shell.types("msg page", "--topic-id", topics[0])
    shell.types("search", "hello")
    shell.types("msg retopic", gone, "--to-topic-id", topics[1])
    shell.types("msg retopic", gone, "--to-topic-id", topics[1], "--mode", "all", code=1)
    shell.types("nonsense", code=1)


def _together(shell: Shell) -> None:
    for name in ("ann", "bob"):
        shell.at(Path.cwd(), PARLEY_AGENT=name)
        shell.types("agent register", "--model", "m", "--session", f"s-{name}")
    shell.types("agent whoami")
    shell.types("agent heartbeat")
    shell.types("agent list")
    first, second, third = (
        shell.types("task create", title, "--channel", "general")["task"]["id"] for title in ("one", "two", "three")
    )
    shell.types("task claim", first, "--agent", "ann")
    shell.types("task claim", first, code=2)
    shell.types("task list")
    shell.types("task show", first)
    shell.types("task renew", first, "--agent", "ann")
    shell.types("task take-over", first, "--force", "--reason", "hurry")
    shell.types("task complete", first, "--result", "done")
    shell.types("task complete", first, "--result", "done")
    shell.types("task claim", second)
    shell.types("task release", second)
    for _ in range(2):
        shell.types("task cancel", third, "--reason", "no use")
    shell.types("task claim", second)
    shell.types("task claim")
    held = shell.types("lease acquire", "src/**", "--reason", "at work")["lease"]["id"]
    shell.types("lease acquire", "src/**", "--reason", "at work")
    shell.types("lease acquire", "src/*.py", "--agent", "ann", code=2)
    shell.types("lease list")
    shell.types("lease check", "src/a.py", "--agent", "ann", code=2)
    shell.types("lease renew", held)
    shell.types("lease release", held)
    shell.types("agent leave")


def _programs(shell: Shell) -> None:
    shell.types("setup")
    shell.types("setup", "codex", "--dry-run")
    shell.types("setup", "codex", "--check", code=1)
    shell.types("setup", "codex")
    shell.types("setup", "codex", "--check")
    shell.types("setup", "codex", "--remove")
    shell.types("guard status", code=1)
    shell.types("guard install")
    shell.types("guard status")
    shell.types("guard check")
    shell.types("guard uninstall")


def _plugins(shell: Shell, folder: Path) -> None:
    made = shell.types("plugin new", "marker")
    (folder / "parley.toml").write_text(made["settings"])
    shell.types("plugin list")
    for kind in ("linkifier", "extractor"):
        made = shell.types("plugin new", kind, "--type", kind)
        shell.types("plugin test", made["module"], "--file", made["sample"])
    shell.types("trust", code=1)
    shell.types("trust", "--yes")
    shell.types("trust", "--list")
    shell.types("trust", "--revoke")
    shell.types("re-enrich", "--since", "0")


def _listen(shell: Shell, folder: Path) -> None:
    """The events up to now, whose data is the hub's."""
    events = shell.types("status")["latest_event_id"]
    argv = [sys.executable, "-P", "-m", "parley", "listen", "--since", "0", "--json"]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(events):
            event = json.loads(process.stdout.readline())
            shell.keep("listen", 0, {**event, "data": {}})
        process.terminate()
        assert process.wait(SECONDS) == 0


def _meshes(shell: Shell, room: Room) -> None:
    ann, bob = room.home("cli-ann", SETTINGS), room.home("cli-bob")
    shell.at(Path.cwd(), PARLEY_DAEMON_HOME=ann.folder)
    shell.types("daemon status", code=3)
    shell.types("mesh create", "cli", "--broker", room.process.http, "--name", "ann")
    shell.types("mesh list")
    shell.types("daemon up")
    shell.types("daemon up", code=10)
    ann.has_key()
    invite = shell.types("mesh invite")["invite"]
    shell.at(Path.cwd(), PARLEY_DAEMON_HOME=bob.folder)
    shell.types("mesh join", invite, "--name", "bob")
    shell.types("daemon up")
    bob.has_key()
    shell.types("send", "ann", "words for ann", "--id", "b-1")
    shell.types("mesh subscribe", "alerts")
    shell.at(Path.cwd(), PARLEY_DAEMON_HOME=ann.folder)
    ann.gets("words for ann")
    _daemon(shell, ann)
    _mesh(shell)
    shell.types("daemon down")
    shell.types("daemon down")
    shell.types("mesh peers", code=3)
    _offline(shell, ann)


def _daemon(shell: Shell, ann: Home) -> None:
    shell.types("daemon status")
    shell.types("daemon version")
    shell.types("daemon reload")
    shell.types("daemon rotate-token")
    shell.types("inbox", "--keep-unread")
    found = shell.types("daemon inbox list")["items"][0]["id"]
    shell.types("daemon inbox search", "words")
    shell.types("daemon inbox seen", found)
    shell.types("daemon inbox delete", found)
    shell.types("daemon inbox flush", "--all")
    shell.types("send", "bob", "hello", "--id", "a-1")
    ann.until(lambda client: reached(client.outbox_row("a-1")))
    shell.types("send", "bob", "hello", "--id", "a-1")
    shell.types("send", "bob", "another", "--id", "a-1", code=1)
    shell.types("send", "nobody", "hello", code=1)
    for name in ("dead-1", "dead-2"):
        shell.types("send", "#nowhere", "hello", "--id", name)
        ann.until(lambda client, name=name: client.outbox_row(name).status == "dead")
    shell.types("daemon outbox list")
    shell.types("daemon outbox inspect", "a-1")
    shell.types("daemon outbox requeue", "dead-1")
    shell.types("daemon outbox requeue", "a-1", code=2)
    shell.types("daemon outbox drop", "dead-2")
    shell.types("daemon outbox inspect", "dead-1")
    shell.types("daemon outbox prune", "--confirm")
    shell.types("daemon rotate-keypair")


def _mesh(shell: Shell) -> None:
    shell.types("mesh list")
    shell.types("mesh show")
    shell.types("mesh policy", "prefer_oldest")
    shell.types("mesh topics")
    shell.types("mesh subscribe", "alerts")
    shell.types("mesh unsubscribe", "alerts")
    shell.types("mesh group", "crew")
    shell.types("mesh group", "crew", "--leave")
    shell.types("mesh profile", "--status", "idle", "--title", "engineer")
    shell.types("mesh peers")
    shell.types("mesh members")
    shell.types("mesh safety", "bob")
    shell.types("mesh grant", "bob", "dm")
    shell.types("mesh block", "bob")
    shell.types("mesh grants")
    shell.types("mesh block", "bob", "--undo")
    spare = shell.types("mesh invite")["invite_id"]
    shell.types("mesh invites")
    shell.types("mesh uninvite", spare)
    shell.types("mesh role", "bob", "admin")
    shell.types("mesh role", "bob", "member")
    shell.types("mesh audit")
    shell.types("mesh kick", "bob")
    shell.types("mesh ban", "bob")
    shell.types("mesh unban", "bob")
    shell.types("mesh revoke", "bob")


def _offline(shell: Shell, ann: Home) -> None:
    """What is done while no daemon runs."""
    shell.at(Path.cwd(), PARLEY_PASSPHRASE="correct horse battery staple")
    shell.types("daemon backup", ann.folder.parent / "daemon.backup")
    shell.types("daemon accept-host")
    shell.types("daemon recover")
    shell.types("daemon install-service", "--no-start", "--allow-ci")
    shell.types("daemon uninstall-service")
    shell.types("mesh leave", "--local")
    shell.at(Path.cwd(), PARLEY_DAEMON_HOME=ann.folder.parent / "restored")
    shell.types("daemon restore", ann.folder.parent / "daemon.backup")


def _broker(shell: Shell, process: Process, folder: Path) -> None:
    shell.keep("broker up", 0, process.report)
    shell.types("broker status", "--folder", process.folder)
    shell.types("broker limits", "--folder", process.folder)
    shell.types("broker check", "--folder", process.folder)
    shell.types("broker backup", folder / "broker.backup", "--folder", process.folder)
    other = folder / "broker"
    shell.types("broker restore", folder / "broker.backup", "--folder", other)
    shell.types("broker status", "--folder", other, code=3)
    shell.types("broker down", "--folder", other)
    shell.types("broker install-service", "--folder", other, "--no-start", "--allow-ci")
    shell.types("broker uninstall-service", "--folder", other)


def _bus(shell: Shell, folder: Path) -> None:
    shell.at(Path.cwd(), PARLEY_BUS_HOME=folder / "second")
    shell.types("bus whoami", code=4)
    asked = shell.types("bus request")
    shell.types("bus whoami")
    shell.types("bus issue", asked["request"], code=4)
    shell.at(Path.cwd(), PARLEY_BUS_HOME=folder / "first")
    shell.types("bus keygen")
    shell.types("bus whoami")
    shell.types("bus issue", "parley-bus-request-1:cut", code=1)
    granted = shell.types("bus issue", asked["request"], "--topic", "build", "--calls", "9")
    shell.types("bus whoami")
    stated = shell.types("bus revoke", granted["agent"], "--all")
    for line in (asked["request"], stated["statement"]):
        shell.types("bus verify", line)
    shell.types("bus verify", granted["grant"], code=4)
    shell.at(Path.cwd(), PARLEY_BUS_HOME=folder / "second")
    shell.types("bus accept", granted["grant"])
    shell.types("bus request")
    shell.types("bus whoami")
    shell.types("bus verify", granted["grant"])
    shell.types("bus accept", stated["statement"])


def _bus_pair(shell: Shell, folder: Path) -> None:
    """The two sides print lines of their own, and each reads the digits of the other one."""

    def start(home: str, *words: str) -> "subprocess.Popen[str]":
        shell.at(Path.cwd(), PARLEY_BUS_HOME=folder / home)
        argv = [sys.executable, "-P", "-m", "parley", "bus", "pair", "--json", "--no-mdns", *words]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(process: "subprocess.Popen[str]") -> Any:
        assert process.stdout is not None
        return shell.keep("bus pair", 0, json.loads(process.stdout.readline()))

    shell.at(Path.cwd(), PARLEY_BUS_HOME=folder / "here")
    shell.types("bus keygen")
    shell.types("bus pair", "--no-mdns", "127.0.0.1:7", code=1)
    with start("here", "--host", "127.0.0.1") as here, start("there", line(here)["addresses"][0]) as there:
        line(there)
        shown = {process: line(process) for process in (here, there)}
        for process, other in ((here, there), (there, here)):
            assert process.stdin is not None
            process.stdin.write(f"{shown[other]['code']}\n")
            process.stdin.flush()
        for process in (here, there):
            line(process)
            assert process.wait(SECONDS) == 0


def _bus_messages(shell: Shell, folder: Path) -> None:
    here, there = folder / "here", folder / "there"
    shell.at(Path.cwd(), PARLEY_BUS_HOME=there)
    asked = shell.types("bus request")
    shell.at(Path.cwd(), PARLEY_BUS_HOME=here)
    shell.types("bus keygen")
    granted = shell.types("bus issue", asked["request"])
    shell.at(Path.cwd(), PARLEY_BUS_HOME=there)
    shell.types("bus accept", granted["grant"])
    agent = granted["agent"]
    argv = [sys.executable, "-P", "-m", "parley", "bus", "listen", "news", "--answer", "echo=cat", "--json"]
    argv += ["--no-mdns", "--host", "127.0.0.1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            listening = shell.keep("bus listen", 0, json.loads(process.stdout.readline()))
            shell.at(Path.cwd(), PARLEY_BUS_HOME=here)
            BusHome(here).peers.write_text(f"{agent} 127.0.0.1:{listening['port']}\n")
            shell.types("bus request", agent, "echo", "hello", "--no-mdns")
            shell.types("bus request", agent, "nothing", "hello", "--no-mdns", code=1)
            shell.types("bus send", agent, "news", "hello", "--no-mdns")
            shell.types("bus publish", "news", "to all", "--no-mdns")
            shell.types("bus peers", "--no-mdns")
            for _ in range(2):
                shell.keep("bus listen", 0, json.loads(process.stdout.readline()))
        finally:
            process.terminate()
        assert process.wait(SECONDS) == 0
    shell.types("bus send", agent, "news", "for later", "--no-mdns")
    shell.types("bus outbox")
