"""The log: one JSON object per line, in order, rotated, complete or honest about gaps, and without secrets."""

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from parley.core.clock import ManualClock
from parley.core.errors import NotFound
from parley.core.ids import new_token
from parley.serve import ServerLog, configure, register_secret
from parley.serve.log_sink import FileOutput, LogSink, StreamOutput
from parley.serve.redact import REFUSED_KEYS

TIME = "2026-01-01T00:00:00.000Z"


class Written(io.BytesIO):
    """A stream whose lines are read back as objects."""

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def line(self) -> dict[str, Any]:
        (only,) = self.lines()
        return only


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    before = root.level, access.disabled, access.propagate
    yield
    root.setLevel(before[0])
    access.disabled, access.propagate = before[1:]


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
def log(written: Written) -> Iterator[ServerLog]:
    with configure("info", written, clock=ManualClock()) as made:
        yield made


def test_a_line_is_one_json_object_that_begins_with_time_level_and_message(log: ServerLog, written: Written) -> None:
    log.logger.info("request", method="GET", status=200)
    assert list(written.line().items()) == [
        ("ts", TIME),
        ("level", "info"),
        ("msg", "request"),
        ("method", "GET"),
        ("status", 200),
    ]


def test_fields_cannot_take_the_place_of_time_level_and_message(log: ServerLog, written: Written) -> None:
    log.logger.warning("real", ts="never", level="none", msg="other", kept=1)
    assert written.line() == {"ts": TIME, "level": "warning", "msg": "real", "kept": 1}


def test_lines_below_the_level_are_not_written(written: Written) -> None:
    with configure("warning", written, clock=ManualClock()) as log:
        for level in ("debug", "info", "warning", "error"):
            getattr(log.logger, level)(level)
        logging.getLogger("library").info("quiet")
    assert [line["level"] for line in written.lines()] == ["warning", "error"]


def test_bound_fields_come_with_every_line(log: ServerLog, written: Written) -> None:
    bound = log.logger.bind(instance_id="i-1")
    bound.info("one")
    bound.info("two")
    assert [line["instance_id"] for line in written.lines()] == ["i-1", "i-1"]


@pytest.mark.parametrize("key", sorted(REFUSED_KEYS))
def test_a_field_that_carries_content_or_a_token_loses_its_value(log: ServerLog, written: Written, key: str) -> None:
    log.logger.info("x", **{key: "hush"}, nested={"deep": [{key.upper(): "hush"}, ("hush-not",)]})
    assert written.line()[key] == "[redacted]"
    assert written.line()["nested"] == {"deep": [{key.upper(): "[redacted]"}, ["hush-not"]]}


def test_what_is_nested_too_deep_is_not_written(log: ServerLog, written: Written) -> None:
    endless: list[Any] = []
    endless.append(endless)
    log.logger.info("x", endless=endless)
    assert json.dumps(written.line()["endless"]).strip("[]") == '"[redacted]"'


def test_a_path_loses_its_query_string(log: ServerLog, written: Written) -> None:
    log.logger.info("request", path="/ws?token=hush")
    assert written.line()["path"] == "/ws"


def test_a_registered_secret_appears_nowhere_in_a_line(log: ServerLog, written: Written) -> None:
    secret = new_token()
    register_secret(secret)
    register_secret(secret)
    message = f"message {secret}"
    log.logger.info(message, field=secret, inner={"x": [f"a{secret}b"]}, **{secret: 1})
    logging.getLogger("library").warning("said %s", secret)
    assert secret.encode() not in written.getvalue()
    assert written.lines()[0]["inner"] == {"x": ["a[redacted]b"]}
    assert written.lines()[1]["msg"] == "said [redacted]"


def test_a_secret_that_json_escapes_is_found_too(log: ServerLog, written: Written) -> None:
    secret = 'with "quotes" and \\ backslash'
    register_secret(secret)
    log.logger.info("x", field=f"<{secret}>")
    assert written.line()["field"] == "<[redacted]>"


def test_a_secret_too_short_to_be_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16"):
        register_secret("short")


def test_an_exception_is_told_without_a_message_that_may_quote_content(log: ServerLog, written: Written) -> None:
    try:
        int("what somebody wrote")
    except ValueError:
        log.logger.exception("failed")
    line = written.line()
    assert line["level"] == "error"
    assert line["exception"]["type"] == "ValueError"
    assert line["exception"]["frames"][-1].startswith("test_logs.py:")
    assert "message" not in line["exception"]
    assert b"somebody" not in written.getvalue()


def test_an_exception_of_ours_is_told_with_its_message_and_its_cause(log: ServerLog, written: Written) -> None:
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise NotFound("No such topic") from error
    except NotFound as error:
        log.logger.error("failed", exc_info=error)
    told = written.line()["exception"]
    assert (told["type"], told["message"]) == ("NotFound", "No such topic")
    assert told["cause"]["message"] == "[Errno 28] No space left on device"


@pytest.mark.parametrize("nothing", [None, False, True])
def test_exc_info_without_an_exception_adds_nothing(log: ServerLog, written: Written, nothing: bool | None) -> None:
    log.logger.info("x", exc_info=nothing)
    assert set(written.line()) == {"ts", "level", "msg"}


def test_a_value_that_json_does_not_know_is_named_by_its_type(log: ServerLog, written: Written) -> None:
    log.logger.info("x", thing=object(), file=Path("/a/b"))
    assert written.line()["thing"] == "<object>"
    assert written.line()["file"] == "/a/b"


@pytest.mark.parametrize("value", ["\ud800", {"inner": ["\udfff"]}])
def test_a_line_that_cannot_be_written_as_json_is_replaced_by_one_that_says_so(
    log: ServerLog, written: Written, value: object
) -> None:
    log.logger.info("x", good=1, bad=value)
    assert written.line() == {
        "ts": TIME,
        "level": "info",
        "msg": "a line that is not JSON",
        "fields": ["'bad'", "'good'"],
    }


@given(st.dictionaries(st.text(), st.recursive(st.text() | st.integers() | st.floats() | st.binary(), st.lists)))
def test_whatever_is_logged_is_one_valid_line(fields: dict[str, Any]) -> None:
    written = Written()
    with configure("info", written, clock=ManualClock()) as log:
        log.logger.info("x", **{f"f_{name}": value for name, value in fields.items()})
    assert written.getvalue().endswith(b"\n")
    assert written.line()["ts"] == TIME


def test_what_libraries_log_joins_the_same_lines(log: ServerLog, written: Written) -> None:
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
    logging.getLogger("some.library").log(35, "between the levels")
    logging.getLogger("some.library").critical("the worst")
    try:
        raise RuntimeError("quotes data")
    except RuntimeError:
        logging.getLogger("asyncio").exception("Task failed")
    assert [(line["level"], line["msg"], line["logger"]) for line in written.lines()] == [
        ("info", "Started server process [7]", "uvicorn.error"),
        ("warning", "between the levels", "some.library"),
        ("critical", "the worst", "some.library"),
        ("error", "Task failed", "asyncio"),
    ]
    assert written.lines()[3]["exception"]["type"] == "RuntimeError"
    assert b"quotes data" not in written.getvalue()


def test_a_level_below_debug_counts_as_debug(written: Written) -> None:
    with configure("debug", written, clock=ManualClock()):
        chatty = logging.getLogger("chatty")
        chatty.setLevel(1)
        chatty.log(5, "trace")
        chatty.setLevel(logging.NOTSET)
    assert written.line()["level"] == "debug"


def test_a_librarys_formatting_mistake_is_written_as_it_is(log: ServerLog, written: Written) -> None:
    record = logging.LogRecord("library", logging.WARNING, "library.py", 1, "%d things", ("many",), None)
    (ours,) = [handler for handler in logging.getLogger().handlers if type(handler).__module__ == "parley.serve.logs"]
    ours.handle(record)
    assert written.line()["msg"] == "%d things"


def test_the_query_string_that_uvicorn_writes_for_a_websocket_is_taken_out(log: ServerLog, written: Written) -> None:
    logging.getLogger("uvicorn.error").info('%s - "WebSocket %s" [accepted]', "127.0.0.1:5", "/ws?token=hush&x=1")
    assert written.line()["msg"] == '127.0.0.1:5 - "WebSocket /ws?[redacted]" [accepted]'


def test_the_debug_lines_of_libraries_stay_out_even_at_level_debug(written: Written) -> None:
    with configure("debug", written, clock=ManualClock()) as log:
        logging.getLogger("httptools").debug("raw bytes")
        log.logger.debug("ours")
    assert [line["msg"] for line in written.lines()] == ["ours"]


def test_a_second_log_takes_over_from_the_first(written: Written) -> None:
    later = Written()
    with configure("info", written, clock=ManualClock()), configure("info", later, clock=ManualClock()):
        logging.getLogger("library").info("once")
    assert written.lines() == []
    assert later.line()["msg"] == "once"


def test_after_close_nothing_more_is_written(written: Written) -> None:
    log = configure("info", written, clock=ManualClock())
    log.close()
    log.close()
    log.logger.info("late")
    logging.getLogger("library").error("late")
    assert written.getvalue() == b""
    assert not written.closed


async def test_a_real_uvicorn_logs_here_and_writes_no_access_line(log: ServerLog, written: Written) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", http="httptools", loop="asyncio")
    server = uvicorn.Server(config)
    await _serve_one_request(server)
    messages = [line["msg"] for line in written.lines()]
    assert any("Started server process" in message for message in messages)
    assert not any("GET" in message for message in messages)
    assert b"hush" not in written.getvalue()


async def _serve_one_request(server: uvicorn.Server) -> None:
    from parley.serve import bind

    bound = bind("127.0.0.1", 0)
    async with asyncio.timeout(30):
        serving = asyncio.create_task(server.serve(sockets=[bound.socket]))
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port)
        writer.write(b"GET /?token=hush HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 204")
        writer.close()
        server.should_exit = True
        await serving


def test_a_file_is_private_appended_to_and_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "hub.log"
    for number in range(2):
        with configure("info", path, clock=ManualClock()) as log:
            log.logger.info("start", number=number)
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == [0, 1]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_is_rotated_by_size_and_only_so_many_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "hub.log"
    with configure("info", path, rotate_bytes=500, keep=3, clock=ManualClock()) as log:
        for number in range(100):
            log.logger.info("line", number=number)
    files = [tmp_path / name for name in ("hub.log.3", "hub.log.2", "hub.log.1", "hub.log")]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(file.stat().st_size <= 500 for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    numbers = [json.loads(line)["number"] for file in files for line in file.read_text().splitlines()]
    assert numbers == list(range(numbers[0], 100))


def test_a_line_longer_than_the_limit_gets_a_file_of_its_own(tmp_path: Path) -> None:
    output = FileOutput(tmp_path / "hub.log", 10, 2)
    output.put(b"x" * 50 + b"\n")
    output.put(b"y\n")
    output.close()
    assert (tmp_path / "hub.log.1").read_bytes() == b"x" * 50 + b"\n"
    assert (tmp_path / "hub.log").read_bytes() == b"y\n"


def test_a_rotation_that_fails_does_not_lose_lines(tmp_path: Path) -> None:
    (tmp_path / "hub.log.1").mkdir()
    (tmp_path / "hub.log.1" / "in-the-way").touch()
    output = FileOutput(tmp_path / "hub.log", 10, 1)
    output.put(b"12345678\n")
    output.put(b"more\n")
    output.close()
    assert (tmp_path / "hub.log").read_bytes() == b"12345678\nmore\n"


class Failing:
    """An output that takes nothing while ``broken``."""

    def __init__(self) -> None:
        self.broken = False
        self.taken: list[bytes] = []

    def put(self, line: bytes) -> None:
        if self.broken:
            raise OSError(28, "No space left on device")
        self.taken.append(line)

    def close(self) -> None:
        self.broken = True


def test_lines_that_could_not_be_written_are_counted_in_the_next_that_can() -> None:
    output = Failing()
    sink = LogSink(output, ManualClock())
    sink.write(b"1\n")
    output.broken = True
    sink.write(b"2\n")
    sink.write(b"3\n")
    output.broken = False
    sink.write(b"4\n")
    sink.write(b"5\n")
    assert [output.taken[0], *output.taken[2:]] == [b"1\n", b"4\n", b"5\n"]
    assert json.loads(output.taken[1]) == {
        "ts": TIME,
        "level": "warning",
        "msg": "log lines could not be written",
        "count": 2,
    }


def test_a_closed_stream_does_not_stop_the_server() -> None:
    stream = io.BytesIO()
    sink = LogSink(StreamOutput(stream), ManualClock())
    stream.close()
    sink.write(b"x\n")


def test_a_line_that_the_disk_takes_in_part_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    path = tmp_path / "hub.log"
    sink = LogSink(FileOutput(path, 10_000, 1), ManualClock())
    sink.write(b'{"n":1}\n')
    real_write = os.write
    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "write", lambda descriptor, data: real_write(descriptor, data[:3]))
        sink.write(b'{"n":2}\n')
    sink.write(b'{"n":3}\n')
    sink.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("n") for line in lines] == [1, None, 3]
    assert lines[1]["count"] == 1


def test_lines_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "hub.log"
    with configure("info", path, rotate_bytes=20_000, keep=100, clock=ManualClock()) as log:

        def write(thread: int) -> None:
            for number in range(200):
                log.logger.info("line", thread=thread, number=number)

        threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [json.loads(line) for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert sorted((line["thread"], line["number"]) for line in found) == [
        (thread, number) for thread in range(4) for number in range(200)
    ]
