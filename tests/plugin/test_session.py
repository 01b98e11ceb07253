"""Plugins as a hub runs them: real processes in the sandbox, those that work and those that try to hurt."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from parley.core.clock import Clock, ManualClock, SystemClock
from parley.core.errors import PluginFailed
from parley.core.settings import PluginDefaultSettings, PluginSettings
from parley.plugin import Message
from parley.plugin.contract import ERROR_CHARS_MAX
from parley.plugin.session import Done, Failed, Outcome, PluginSession, plugin_message
from parley.sandbox import missing
from parley.wire.entities import Message as WireMessage
from parley.workspace.plugins import LoadedPlugin

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no sandbox here: {'; '.join(missing())}")
PATIENCE_SECONDS = 60.0
TICKETS = """
from parley.plugin import find, link

def enrich(message, config):
    return [link(each, config["base"] + each[0]) for each in find(r"T-\\d+", message)]
"""


def loaded(source: str | dict[str, str], kind: str = "linkifier", **settings: Any) -> LoadedPlugin:
    sources = {"own.py": source} if isinstance(source, str) else source
    files = {path: text.encode() for path, text in sources.items()}
    configured = PluginSettings("own", kind, module="own.py", **settings)  # type: ignore[arg-type]
    return LoadedPlugin(configured, "ready", None, "own", files)


def builtin(name: str, kind: str, config: dict[str, Any]) -> LoadedPlugin:
    settings = PluginSettings(name, kind, config=config)  # type: ignore[arg-type]
    return LoadedPlugin(settings, "ready", None, f"parley.plugin.builtin.{name}")


def messages(*contents: str) -> list[Message]:
    return [Message(f"msg_{n}", "topic_1", "ch_1", "ann", text, 1, "now") for n, text in enumerate(contents)]


def patient(**defaults: Any) -> PluginDefaultSettings:
    """A deadline that no busy machine breaks, although a plugin gives way to all others; shorter ones are meant."""
    return PluginDefaultSettings(**{"deadline_seconds": PATIENCE_SECONDS, **defaults})


@contextmanager
def session(
    plugin: LoadedPlugin, hidden: tuple[Path, ...] = (), clock: Clock | None = None, **defaults: Any
) -> Iterator[PluginSession]:
    running = PluginSession(plugin, patient(**defaults), clock or SystemClock(), hidden=hidden)
    try:
        running.start()
        yield running
    finally:
        running.close()


def outcomes(source: str, *contents: str, **settings: Any) -> list[Outcome]:
    with session(loaded(source, **settings)) as running:
        return list(running.run_many(messages(*contents)))


def failures(found: list[Outcome]) -> list[tuple[str, str]]:
    return [(each.reason, each.text) for each in found if isinstance(each, Failed)]


def test_findings_come_in_the_order_of_the_messages() -> None:
    with session(loaded(TICKETS, config={"base": "https://tickets.example/"})) as running:
        found = list(running.run_many(messages("T-1", "none", "T-2 T-3")))
        assert [len(each.findings.enrichments) for each in found if isinstance(each, Done)] == [1, 0, 2]
        assert [each.message.id for each in found] == ["msg_0", "msg_1", "msg_2"]
        assert running.alive
        (again,) = running.run_many(messages("T-4"))
    assert isinstance(again, Done)
    assert again.findings.enrichments[0].data == {"url": "https://tickets.example/T-4"}
    assert not running.alive


def test_a_package_imports_its_own_parts_and_data() -> None:
    package = {
        "own/__init__.py": "from own.inner import words\nfrom .inner import enrich\n",
        "own/inner.py": (
            "from pathlib import Path\n"
            "words = (Path(__file__).parent / 'words.txt').read_text().split()\n"
            "def enrich(message, config):\n"
            "    return [{'kind': word, 'span': {'start': 0, 'end': 1}} for word in words]\n"
        ),
        "own/words.txt": "red green",
    }
    with session(loaded(package)) as running:
        (found,) = running.run_many(messages("x"))
    assert isinstance(found, Done)
    assert [each.kind for each in found.findings.enrichments] == ["red", "green"]


def test_the_built_ins_run_like_any_other() -> None:
    with session(builtin("links", "linkifier", {"code": False})) as running:
        (found,) = running.run_many(messages("src/a.py src/a.py:3"))
        assert isinstance(found, Done)
        assert [each.kind for each in found.findings.enrichments] == ["file_path"]
    with session(builtin("urls", "extractor", {"block": ["b.example"]})) as running:
        (found,) = running.run_many(messages("https://a.example https://b.example"))
        assert isinstance(found, Done)
        assert [each.value_json for each in found.findings.attachments] == [{"url": "https://a.example"}]
        assert found.findings.attachments[0].source_message_id == "msg_0"


def test_a_plugin_may_map_as_much_as_a_large_library_does_though_it_uses_little() -> None:
    source = "import mmap\nmapped = mmap.mmap(-1, 120 << 20)\ndef enrich(message, config): return []\n"
    assert failures(outcomes(source, "hi")) == []


def test_many_messages_of_every_size_pass_through() -> None:
    source = (
        "def enrich(message, config): return [{'kind': 'k', 'span': {'start': 0, 'end': len(message.content_raw)}}]\n"
    )
    contents = ["x" * (n * 997 % 65_000 + 1) for n in range(150)] + ["\x01" * 65_536, "é" * 32_768]
    found = outcomes(source, *contents)
    assert [each.findings.enrichments[0].span.end for each in found if isinstance(each, Done)] == list(
        map(len, contents)
    )


def test_large_answers_to_many_small_messages_pass_through() -> None:
    source = (
        "def enrich(m, c): return [{'kind': 'k', 'span': {'start': 0, 'end': 1}, 'data': {'x': 'y' * 16000}}] * 16\n"
    )
    found = outcomes(source, *["x"] * 64)
    assert len(found) == 64
    assert all(isinstance(each, Done) for each in found)


def test_async_functions_run() -> None:
    source = (
        "import asyncio\nasync def enrich(message, config):\n    await asyncio.sleep(0)\n"
        "    return [{'kind': 'k', 'span': {'start': 0, 'end': 1}}]\n"
    )
    assert all(isinstance(each, Done) for each in outcomes(source, "x", "y"))


def test_what_a_plugin_prints_or_reads_does_not_disturb_the_conversation() -> None:
    source = (
        "import os, sys\nprint('loading')\ndef enrich(message, config):\n"
        "    print('seen', message.id, flush=True)\n"
        "    os.write(1, b'{\"number\": 99}\\n')\n"
        "    sys.__stdout__.write('{}\\n'); sys.__stdout__.flush()\n"
        "    assert sys.stdin.read() == ''\n"
        "    os.system('echo from a child 2>/dev/null')\n"
        "    return []\n"
    )
    with session(loaded(source)) as running:
        assert failures(list(running.run_many(messages("x", "y")))) == []
        printed = running.printed
    assert "loading" in printed
    assert "seen msg_0" in printed
    assert "seen msg_1" in running.printed


def test_an_exception_fails_its_message_alone() -> None:
    source = "def enrich(message, config):\n    if message.content_raw == 'bad': raise ValueError('no')\n"
    first, bad, last = outcomes(source, "good", "bad", "good")
    assert isinstance(first, Done)
    assert isinstance(last, Done)
    assert isinstance(bad, Failed)
    assert (bad.reason, bad.fatal) == ("error", False)
    assert bad.text == "ValueError: no (/app/own.py, line 2, in enrich)"


def test_a_wrong_result_fails_its_message_alone() -> None:
    source = "def enrich(m, c): return [{'kind': 'k', 'span': {'start': 0, 'end': len(m.content_raw) - 1}}]\n"
    wrong, right = outcomes(source, "x", "xy")
    assert isinstance(wrong, Failed)
    assert (wrong.reason, wrong.fatal) == ("invalid", False)
    assert wrong.text.startswith("enrich(), result 1: the span from 0 to 0")
    assert isinstance(right, Done)


@pytest.mark.parametrize(
    "how", ["while True: pass", "import time; time.sleep(3600)", "import threading; threading.Event().wait()"]
)
def test_a_message_that_takes_too_long_ends_the_process(how: str) -> None:
    source = f"def enrich(message, config):\n    if message.content_raw == 'hang':\n        {how}\n"
    with session(loaded(source)) as running:
        found = running.run_many(messages("a", "hang", "never seen", "nor this"))
        assert isinstance(next(found), Done)
        running.deadline_seconds = 0.5
        assert failures(list(found)) == [("timeout", "it took longer than its 0.5 s for one message")]
        assert not running.alive
        with pytest.raises(PluginFailed, match="not running"):
            next(running.run_many(messages("b")))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("os._exit(3)", "exit code 3"),
        ("os.kill(os.getpid(), 11)", ""),
        ("os.closerange(3, 64)", ""),
    ],
)
def test_a_process_that_ends_takes_the_blame_for_the_message_it_was_busy_with(how: str, told: str) -> None:
    source = f"import os\ndef enrich(message, config):\n    if message.content_raw == 'die': {how}\n"
    found = outcomes(source, "a", "die", "b")
    assert isinstance(found[0], Done)
    assert next(each.message.id for each in found if isinstance(each, Failed)) == "msg_1"
    assert told in failures(found)[0][1]


def test_a_crash_says_the_last_words() -> None:
    source = "import os, sys\ndef enrich(message, config):\n    sys.stderr.write('out of cheese\\n'); os._exit(1)\n"
    ((reason, text),) = failures(outcomes(source, "x"))
    assert reason == "crash"
    assert "out of cheese" in text


@pytest.mark.parametrize(
    ("body", "reason", "told"),
    [
        ("return ['x' * 2_000_000]", "error", "enrich() returned too many bytes"),
        ("return ['x' * 100_000_000]", "error", "enrich() returned too many bytes"),
        ("return [{'kind': 'k', 'span': {'start': 0, 'end': 1}}] * 501", "invalid", "more than 500 results"),
        (
            "return [{'kind': 'k', 'span': {'start': 0, 'end': 1}, 'data': {'a': 'x' * 20000}}]",
            "invalid",
            "16384 bytes",
        ),
        ("sys.stderr.write('x' * 3_000_000)", "output", "it wrote more than the sandbox allows"),
        ("return [bytearray(10 ** 10)]", "error", "MemoryError"),
    ],
)
def test_too_much_is_a_failure_of_the_plugin(body: str, reason: str, told: str) -> None:
    ((found, text),) = failures(outcomes(f"import sys\ndef enrich(message, config):\n    {body}\n", "x"))
    assert found == reason
    assert told in text


@pytest.mark.parametrize(
    "answer",
    [
        """b'{"number": 2, "error": "' + b'x' * 1_000_000 + b'"}\\n'""",
        """b'{"number": 2, "results": [{"' + b'x' * 1_000_000 + b'": 1}]}\\n'""",
        """b'{"number": ' + b'"x' * 500_000 + b'}\\n'""",
        """b'[' * 1_000_000 + b'\\n'""",
    ],
)
def test_a_forged_error_is_no_longer_than_a_real_one(answer: str) -> None:
    """What it says is stored with the job, and stands in the log."""
    source = (
        "import os\ndef enrich(message, config):\n"
        "    for n in range(3, 10):\n"
        f"        try: os.write(n, {answer})\n"
        "        except OSError: pass\n"
    )
    found = outcomes(source, "a")
    assert isinstance(found[0], Failed)
    assert len(found[0].text) <= 2 * ERROR_CHARS_MAX + 100


LEAVES_A_CHILD = """
import os, time
def enrich(message, config):
    if message.content_raw == 'leave' and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            time.sleep(3600)
        os._exit(0)
    return []
"""


def test_what_a_plugin_leaves_running_ends_with_its_run() -> None:
    with session(loaded(LEAVES_A_CHILD)) as running:
        assert failures(list(running.run_many(messages("stay", "stay")))) == []
        assert running.alive
        assert failures(list(running.run_many(messages("stay", "leave")))) == []
        assert not running.alive


def test_what_a_plugin_leaves_running_ends_while_messages_keep_coming() -> None:
    """The second message comes a deadline later: before it is sent, nobody may be left."""
    clock = ManualClock(0)
    started: list[str] = []
    with session(loaded(LEAVES_A_CHILD), clock=clock) as running:
        first = running._jail

        def sent() -> Iterator[Message]:
            yield from messages("leave")
            while not started:
                yield from messages("stay")

        for outcome in running.run_many(sent()):
            assert isinstance(outcome, Done)
            clock.advance(running.deadline_seconds)
            if running._jail is not first:
                started.append("anew")
        assert started
        assert running.alive


def test_another_thread_can_end_a_run() -> None:
    source = "import time\ndef enrich(message, config): print('busy'); time.sleep(3600)\n"
    with session(loaded(source, deadline_seconds=60.0)) as running:
        first, second = messages("x", "y")
        other = threading.Thread(target=running.interrupt)

        def sent() -> Iterator[Message]:
            yield first
            other.start()  # the first message is on its way
            yield second

        ((reason, _),) = failures(list(running.run_many(sent())))
        other.join()
        assert reason == "crash"
        assert not running.alive


def test_answers_that_a_plugin_forges_are_not_taken_for_those_of_other_messages() -> None:
    source = (
        "import os\ndef enrich(message, config):\n"
        "    for n in range(3, 10):\n"
        '        try: os.write(n, b\'{"number": 7, "results": []}\\n\')\n'
        "        except OSError: pass\n"
    )
    found = outcomes(source, "a", "b")
    assert [type(each) for each in found] == [Failed]
    assert failures(found)[0][0] == "crash"
    assert "answer 7 where answer 2 was due" in failures(found)[0][1]


@pytest.mark.parametrize(
    ("source", "deadline_seconds", "told"),
    [
        ("import no_such_module\n", None, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0\n", None, "ZeroDivisionError: division by zero (/app/own.py, line 1, in <module>)"),
        ("def other(): pass\n", None, "own has no function enrich(message, config)"),
        ("import os; os._exit(7)\n", None, "exit code 7"),
        ("import time; time.sleep(3600)\n", 0.5, "it took longer than its 0.5 s to be loaded"),
    ],
)
def test_a_plugin_that_does_not_load_says_why(source: str, deadline_seconds: float | None, told: str) -> None:
    plugin = loaded(source, deadline_seconds=deadline_seconds)
    running = PluginSession(plugin, patient(), SystemClock(), hidden=())
    with pytest.raises(PluginFailed) as refused:
        running.start()
    assert refused.value.message.startswith("Plugin own does not start: ")
    assert told in refused.value.message
    assert refused.value.details["plugin"] == "own"
    assert not running.alive


def test_it_is_not_started_where_it_would_see_what_it_must_not() -> None:
    import parley

    hidden = Path(parley.__file__).parent / "core"
    running = PluginSession(loaded(TICKETS), PluginDefaultSettings(), SystemClock(), hidden=(hidden,))
    with pytest.raises(PluginFailed, match="which lies under") as refused:
        running.start()
    assert refused.value.details["reason"] == "unavailable"


def test_it_sees_neither_the_workspace_nor_the_home(tmp_path: Path) -> None:
    state = tmp_path / ".parley"
    state.mkdir()
    (state / "token").write_text("secret")
    source = f"import os\ndef enrich(message, config): raise ValueError(os.path.exists({str(tmp_path)!r}))\n"
    with session(loaded(source), hidden=(state,)) as running:
        found = list(running.run_many(messages("x")))
    assert failures(found)[0][1].startswith("ValueError: False")


def test_a_caller_who_stops_listening_ends_the_session() -> None:
    with session(loaded("def enrich(message, config): return []\n")) as running:
        results = running.run_many(messages(*"abcdef"))
        next(results)
        results.close()  # type: ignore[attr-defined]
        assert not running.alive


def test_a_message_of_the_hub_becomes_one_of_a_plugin() -> None:
    wire = WireMessage("msg_1", "topic_1", "ch_1", "ann", "x", 2, "a", "b", None, None, "msg_0")
    assert plugin_message(wire) == Message("msg_1", "topic_1", "ch_1", "ann", "x", 2, "a", "b", "msg_0")
