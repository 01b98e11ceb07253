"""The tours in the README and of the bus: their commands are run as they stand there, and print what is shown."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from parley.app.stop import stop_hub
from parley.workspace import discovery
from tests.docs.markdown import blocks, document

STEP = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
SHOWN_FOLDER = "/srv"
SEPARATOR = "\x1e"
STOP_SECONDS = 30.0
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"process \d+"), "process N"),
    (re.compile(r"on port \d+"), "on port N"),
    (re.compile(r"calls itself [^,]+"), "calls itself HOST"),
    (re.compile(r"(?<=\(builder, on )[^,]+"), "HOST"),
)
ID = re.compile(r"\b(?:(ch|topic|msg|att|in)_[a-z0-9]{12,}|[0-9a-f]{64}\b)")


class Step(NamedTuple):
    """One command of the tour and what it prints."""

    command: str
    output: str


def steps(text: str) -> list[Step]:
    """The commands of all blocks that are marked as part of the tour."""
    tour = [block.text for block in blocks(text) if block.note == "tour"]
    return [Step(found["command"], found["output"]) for part in tour for found in STEP.finditer(part)]


def steady(outputs: list[str]) -> list[str]:
    """The outputs without what differs from run to run. Ids are numbered as they appear, so equal ones stay equal."""
    numbers: dict[str, str] = {}
    result: list[str] = []
    for output in outputs:
        for pattern, word in VARYING:
            output = pattern.sub(word, output)
        result.append(ID.sub(lambda found: numbers.setdefault(found[0], f"{found[1] or 'key'}_{len(numbers)}"), output))
    return result


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["README.md", "docs/bus.md"])
def test_the_tour_prints_what_it_shows(tmp_path: Path, name: str) -> None:
    tour = steps(document(name))
    assert len(tour) > 7
    script = "".join(f"{step.command}\nprintf '{SEPARATOR}'\n" for step in tour)
    # The search for a workspace stops at the home folder, so nothing outside can be found.
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    finally:
        stop_all(tmp_path / "shop", environment)
    printed = done.stdout.replace(str(tmp_path), SHOWN_FOLDER).split(SEPARATOR)[: len(tour)]
    got = [f"$ {step.command}\n{output}" for step, output in zip(tour, steady(printed), strict=True)]
    shown = [f"$ {step.command}\n{output}" for step, output in zip(tour, steady([s.output for s in tour]), strict=True)]
    assert got == shown


def stop_all(shop: Path, environment: dict[str, str]) -> None:
    """Stops whatever the tour left running because it broke off."""
    for machine in ("laptop", "server"):
        home = {**environment, "PARLEY_DAEMON_HOME": str(shop / machine)}
        subprocess.run(["parley", "daemon", "down"], env=home, capture_output=True, check=False)
    subprocess.run(["parley", "broker", "down"], env=environment, capture_output=True, check=False)
    if shop.is_dir():
        stop_hub(discovery.at(shop), STOP_SECONDS)


def test_outputs_with_other_ids_and_times_are_the_same_but_for_those() -> None:
    first = ["msg_mwiuol7900000000 at 2026-11-16T05:56:11.733Z", "msg_mwiuol7900000000"]
    second = ["msg_aaaaaaaa00000001 at 2027-01-01T00:00:00.000Z", "msg_aaaaaaaa00000001"]
    assert steady(first) == steady(second)
    assert steady(first) != steady([second[0], "msg_aaaaaaaa00000002"])
