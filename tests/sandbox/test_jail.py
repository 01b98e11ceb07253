"""Talking to a command in a jail: requests, answers, and the ways in which it can fall silent."""

import gc
import os
import threading
from pathlib import Path

import pytest

from parley.sandbox import Jail, JailError, Policy, python_command, run
from parley.sandbox.view import interpreter
from tests.sandbox.conftest import SECONDS, patient

pytestmark = pytest.mark.usefixtures("sandbox")
ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"


def python(code: str) -> list[str]:
    return [str(interpreter()), "-I", "-S", "-c", code]


def test_each_line_that_is_sent_is_answered() -> None:
    with Jail(python(ECHO), patient()) as jail:
        for number in range(100):
            jail.send(b"line %d\n" % number)
            assert jail.receive_line(SECONDS) == b"line %d" % number


def test_lines_that_came_together_are_handed_over_one_by_one() -> None:
    with Jail(python("print('one\\ntwo\\n\\nfour')"), patient()) as jail:
        assert [jail.receive_line(SECONDS) for _ in range(4)] == [b"one", b"two", b"", b"four"]


def test_much_can_be_sent_while_much_comes_back() -> None:
    """More than both pipes hold: neither side waits for the other."""
    line = b"x" * 700_000 + b"\n"
    with Jail(python("import os\nwhile data := os.read(0, 65_536): os.write(1, data)"), patient()) as jail:
        jail.send(line)
        assert jail.receive_line(SECONDS) == line.strip()


def test_who_does_not_answer_in_time_is_dead() -> None:
    with Jail(python(ECHO), patient()) as jail:
        with pytest.raises(JailError) as raised:
            jail.receive_line(0.1)
        assert raised.value.reason == "timeout"
        with pytest.raises(JailError) as raised:
            jail.send(b"are you there?\n")
        assert raised.value.reason == "ended"


def test_who_does_not_read_in_time_is_dead() -> None:
    with Jail(python("import signal; signal.pause()"), Policy(deadline_seconds=0.5)) as jail:
        with pytest.raises(JailError) as raised:
            jail.send(b"x" * 1_000_000)
        assert raised.value.reason == "timeout"


def test_a_line_without_an_end_is_cut_off() -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 1000)"
    with Jail(python(code), patient(output_bytes=100_000)) as jail:
        with pytest.raises(JailError) as raised:
            jail.receive_line(SECONDS)
        assert raised.value.reason == "output"


def test_endless_errors_are_cut_off() -> None:
    code = "import sys\nwhile True: sys.stderr.write('x' * 1000)"
    with Jail(python(code), patient(output_bytes=100_000)) as jail:
        with pytest.raises(JailError) as raised:
            jail.receive_line(SECONDS)
        assert raised.value.reason == "output"


def test_who_ends_early_is_told_with_its_exit_code_and_its_last_words() -> None:
    with Jail(python("import sys; sys.exit('x' * 10_000 + ' I cannot go on')"), patient()) as jail:
        with pytest.raises(JailError, match=r"exit code 1\)$") as raised:
            jail.receive_line(SECONDS)
        assert raised.value.reason == "ended"
        assert jail.error_text.endswith("x I cannot go on\n")
        assert len(jail.error_text) == 4_096


def test_one_that_reads_no_more_is_heard_to_its_end() -> None:
    """Sending says nothing: what it had answered is still there, and then how it ended."""
    source = "import os; os.close(0); print('answered', flush=True); os._exit(3)"
    with Jail(python(source), patient()) as jail:
        for _ in range(3):
            jail.send(b"a question\n" * 10_000)
        assert jail.receive_line(SECONDS) == b"answered"
        with pytest.raises(JailError, match="exit code 3") as raised:
            jail.receive_line(SECONDS)
        assert raised.value.reason == "ended"


def test_errors_of_earlier_requests_are_kept_and_do_not_add_up() -> None:
    code = "import sys\nfor line in sys.stdin: print('x' * 30_000, file=sys.stderr, flush=True); print(flush=True)"
    with Jail(python(code), patient(output_bytes=100_000)) as jail:
        for _ in range(10):
            jail.send(b"\n")
            jail.receive_line(SECONDS)
        assert set(jail.error_text) == {"x", "\n"}


def test_closing_twice_does_nothing() -> None:
    jail = Jail(python(ECHO), patient())
    jail.close()
    jail.close()


def test_a_jail_leaves_no_descriptor_behind() -> None:
    gc.collect()  # what others left behind is not to be counted as ours
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the listing itself holds one
    for _ in range(3):
        with Jail(python(ECHO), patient()):
            pass
        with pytest.raises(JailError):
            Jail(["/no/such/program"], patient())
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


def test_a_command_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(JailError, match="No such file") as raised:
        Jail(["/no/such/program"], patient())
    assert raised.value.reason == "unavailable"


def test_a_run_hands_over_its_input_and_tells_how_it_ended() -> None:
    code = "import sys; data = sys.stdin.read(); print(len(data)); print('talk', file=sys.stderr); sys.exit(4)"
    finished = run(python(code), patient(), stdin=b"x" * 300_000)
    assert (finished.exit_code, finished.stdout, finished.stderr) == (4, b"300000\n", b"talk\n")


def test_a_run_that_does_not_want_its_input_is_no_failure() -> None:
    assert run(python("print('done')"), patient(), stdin=b"x" * 1_000_000).stdout == b"done\n"


def test_the_environment_is_what_was_given_and_nothing_of_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_TOKEN", "secret")
    monkeypatch.setenv("LD_PRELOAD", "/no/such/library.so")
    monkeypatch.setenv("PYTHONPATH", "/no/such/folder")
    finished = run(python("import os; print(sorted(os.environ.items()))"), patient(), environment={"GIVEN": "yes"})
    given = {"GIVEN": "yes", "HOME": "/scratch", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "TMPDIR": "/scratch"}
    assert finished.stdout.decode().strip() == str(sorted(given.items()))
    assert finished.stderr == b""


def test_a_module_of_ours_and_what_it_needs_can_be_run() -> None:
    many = {f"plugin/part{number}.py": b"x = 1" for number in range(1_000)}
    policy = patient(files={"plugin/code.py": b"answer = 42", **many})
    finished = run(python_command("parley"), policy)
    assert b"Usage" in finished.stdout + finished.stderr
    read = "import runpy; print(runpy.run_path('/app/plugin/code.py')['answer'])"
    assert run(python(read), policy).stdout == b"42\n"


def test_what_an_honest_plugin_needs_works() -> None:
    code = """
import asyncio, datetime, os, socket, sqlite3, ssl, subprocess, sys, tempfile, threading, uuid, zoneinfo
thread = threading.Thread(target=print, args=('thread',))
thread.start()
thread.join()
async def later():
    await asyncio.sleep(0)
    return 'loop'
print(asyncio.run(later()))
with tempfile.NamedTemporaryFile() as file:
    print(os.path.dirname(file.name))
connection = sqlite3.connect('own.db')
connection.execute('CREATE TABLE t (x)')
connection.commit()
print(subprocess.run([sys.executable, '-I', '-S', '-c', 'print(1)'], capture_output=True, text=True).stdout.strip())
one, other = socket.socketpair()
one.send(b'pair')
print(other.recv(10).decode(), len(os.urandom(8)), uuid.uuid4().version)
print(open('/dev/null', 'w').write('x'), str(datetime.datetime.now(zoneinfo.ZoneInfo('UTC')).tzinfo))
"""
    finished = run(python(code), patient())
    assert finished.stdout.decode().splitlines() == ["thread", "loop", "/scratch", "1", "pair 8 4", "1 UTC"], finished


def test_it_can_be_ended_by_another_thread() -> None:
    with Jail(python("print('ready', flush=True); import signal; signal.pause()"), patient()) as jail:
        assert jail.receive_line(SECONDS) == b"ready"
        thread = threading.Thread(target=jail.interrupt)
        thread.start()
        with pytest.raises(JailError) as raised:
            jail.receive_line(SECONDS)
        thread.join()
    assert raised.value.reason == "ended"


def test_the_files_of_a_policy_cannot_be_changed(tmp_path: Path) -> None:
    code = """
import os
import threading
for attempt in (
    lambda: open('/app/plugin.py', 'w'),
    lambda: os.chmod('/app/plugin.py', 0o777),
    lambda: os.unlink('/app/plugin.py'),
    lambda: os.rename('/app/plugin.py', '/scratch/plugin.py'),
    lambda: open('/app/other.py', 'w'),
    lambda: os.mkdir('/new'),
    lambda: os.rmdir('/app'),
):
    try:
        attempt()
        print('changed')
    except OSError:
        pass
print(open('/app/plugin.py').read())
"""
    assert run(python(code), patient(files={"plugin.py": b"as it was"})).stdout == b"as it was\n"


def test_what_runs_in_scratch_is_read_not_executed() -> None:
    code = """
import os, shutil, sys
shutil.copy(sys.executable, '/scratch/program')
os.chmod('/scratch/program', 0o700)
os.execv('/scratch/program', ['program', '-c', ''])
"""
    finished = run(python(code), patient(scratch_bytes=64 * 1024 * 1024))
    assert b"PermissionError" in finished.stderr
