"""``make test``: every test on two processes, and a second look at the few that failed.

Thousands of tests share two cores with the servers, browsers and JVMs that they start, and a machine that stands still
for a moment can make one of them fail. What failed is run again, alone and twice. Only what passes both times is let
through, and it is named at the end as unsteady, since somebody has to find out why.

There is no second look where more than a few failed, nor where tests search by chance for what must never happen: a
message that was lost once has been lost.

What the time went to is shown before pytest's closing line: a table of folders, and the slowest tests.
"""

import signal
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Final

import pytest

FEW: Final = 3
SLOWEST: Final = 15
NO_SECOND_LOOK: Final = ("tests/crash/", "tests/simulation/", "tests/mcp/test_team.py")
ALL: Final = ("-q", "-n", "2", "--dist", "loadgroup")
ALONE: Final = (sys.executable, "-m", "pytest", "-q", "-n", "0")


class Failures:
    """A plugin that remembers which tests failed, in their own part or in their fixtures, and which files are none."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._remember(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._remember(report)

    def _remember(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self.names:
            self.names.append(report.nodeid)


class Times:
    """A plugin that adds up what tests take, with their fixtures, on all processes together."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """The folders and the tests, those that take longest first."""
        tests: Counter[str] = Counter()
        seconds: defaultdict[str, float] = defaultdict(float)
        for name, taken in self.seconds.items():
            tests[folder_of(name)] += 1
            seconds[folder_of(name)] += taken
        width = max(map(len, ("folder", *seconds)))
        folders = sorted(seconds, key=lambda each: -seconds[each])
        slowest = sorted(self.seconds, key=lambda each: -self.seconds[each])[:SLOWEST]
        return [
            "",
            f"{'folder':{width}}  tests  seconds",
            *(f"{each:{width}}  {tests[each]:5}  {seconds[each]:7.1f}" for each in folders),
            f"{'all':{width}}  {tests.total():5}  {sum(seconds.values()):7.1f}",
            "",
            "slowest tests, in seconds",
            *(f"{self.seconds[name]:7.1f}  {name}" for name in slowest),
        ]


def folder_of(name: str) -> str:
    """A test's folder below ``tests``; ``tests`` itself for a file that lies there."""
    *folders, _ = name.partition("::")[0].split("/")
    return "/".join(folders[:2])


def main(arguments: list[str]) -> int:
    # A shell that runs this in the background has it ignore Ctrl-C, and so would every process that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    failures = Failures()
    code = pytest.main([*ALL, *arguments], plugins=[failures, Times()])
    if code != pytest.ExitCode.TESTS_FAILED or not failures.names:
        return int(code)
    refusal = no_second_look(failures.names)
    if refusal is not None:
        print(f"\nNo second look: {refusal}.")
        return int(code)
    print(f"\nA second look, alone and twice, at: {', '.join(failures.names)}", flush=True)
    for _ in range(2):
        again = subprocess.run([*ALONE, *failures.names], check=False)
        if again.returncode != 0:
            return again.returncode
    print(f"\nUNSTEADY, to be mended: {', '.join(failures.names)} failed among the others and passed alone, twice.")
    return 0


def no_second_look(names: list[str]) -> str | None:
    """Why these failures stand as they are; None if they may be chance."""
    if len(names) > FEW:
        return f"{len(names)} tests failed, which is no accident"
    searching = [name for name in names if name.startswith(NO_SECOND_LOOK)]
    if searching:
        return f"{searching[0]} looks for what must never happen, and once is enough"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
