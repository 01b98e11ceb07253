"""The Java that Spark runs on: one that is there, else the one of the wheel."""

import os
import subprocess
from pathlib import Path

import pytest

from parley.core.pipeline_errors import JavaNotFound
from parley.pipeline import java
from parley.pipeline.java import find_java_home, java_version, wrapped_runtime


def script(folder: Path, text: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return folder


def says(folder: Path, version: str) -> Path:
    return script(folder, f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 1)])
def test_the_version_is_read_from_what_java_says(tmp_path: Path, said: str, version: int) -> None:
    assert java_version(says(tmp_path / "jdk", said) / "bin" / "java") == version


def test_what_does_not_run_is_no_java(tmp_path: Path) -> None:
    assert java_version(tmp_path / "nothing") is None
    assert java_version(script(tmp_path / "broken", "exit 3") / "bin" / "java") is None


def test_java_home_comes_before_the_path_and_an_unfit_one_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, fit = says(tmp_path / "old", "11.0.2"), says(tmp_path / "fit", "21.0.1")
    monkeypatch.setenv("PATH", str(fit / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert find_java_home(tmp_path / "cache") == fit
    monkeypatch.setenv("JAVA_HOME", str(says(tmp_path / "best", "17.0.1")))
    assert find_java_home(tmp_path / "cache") == tmp_path / "best"


def test_without_any_java_the_wheel_serves_through_a_script_that_drops_one_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_installed", list)
    home = find_java_home(tmp_path)
    run = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, java_version(home / "bin" / "java")) == (0, 21), run.stderr


def test_the_script_hands_on_every_other_argument_as_it_is(tmp_path: Path) -> None:
    echo = script(tmp_path / "runtime", """for each; do printf '%s|' "$each"; done""")
    home = wrapped_runtime(echo, tmp_path)
    arguments = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "$HOME", "", "it's"]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "-cp|a b:c|$HOME||it's|"
    before = (home / "bin" / "java").stat()
    assert wrapped_runtime(echo, tmp_path) == home
    assert (home / "bin" / "java").stat() == before


def test_no_java_at_all_is_said_with_what_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_runtime_of_wheel", lambda: None)
    monkeypatch.setattr(java, "_installed", lambda: [says(tmp_path / "old", "11.0.2")])
    with pytest.raises(JavaNotFound, match="is Java 11"):
        find_java_home(tmp_path)


def test_the_script_runs_a_java_whose_path_has_a_quote_in_it(tmp_path: Path) -> None:
    home = wrapped_runtime(says(tmp_path / "it's $HOME", "21.0.1"), tmp_path / "cache")
    assert java_version(home / "bin" / "java") == 21
