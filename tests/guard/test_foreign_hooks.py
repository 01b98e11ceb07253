"""Hooks that are there stay, run, and are what they were when the guard is gone."""

import os
import stat
from pathlib import Path

import pytest

from parley.workspace.layout import Workspace
from tests.guard.conftest import Guard
from tests.guard.repositories import Bob, Tree

RAN = "foreign hook ran"
SHELL = f"#!/bin/sh\nset -eu\necho '{RAN}' >&2\n"
FOREIGN = {
    "sh": SHELL,
    "bash without a last line end": f"#!/usr/bin/env bash\necho '{RAN}' >&2",
    "sh with a flag": f"#!/bin/sh -e\necho '{RAN}' >&2\n",
    "python": f"#!/usr/bin/env python3\nimport sys\nsys.stderr.write('{RAN}\\n')\n",
    "no first line": f"echo '{RAN}' >&2\n",
}


def hook(tree: Tree, name: str = "pre-commit") -> Path:
    return tree.top / ".git/hooks" / name


def put(path: Path, text: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(mode)


def everything(folder: Path) -> dict[str, tuple[bytes | str, int]]:
    return {
        path.name: (os.readlink(path) if path.is_symlink() else path.read_bytes(), path.lstat().st_mode)  # noqa: PTH115
        for path in folder.iterdir()
    }


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_hook_is_kept_run_and_given_back(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace, text: str
) -> None:
    put(hook(tree), text, 0o750)
    before = everything(hook(tree).parent)
    bob.lease("src/a.py")
    assert guard("install") == 0
    done = tree.commit("src/a.py")
    assert done.code == 0, done.said
    assert RAN in done.said
    assert "leased by bob" in done.said
    workspace.config.write_text('[guard]\nmode = "block"\n')
    assert tree.commit("src/a.py").code != 0
    installed = everything(hook(tree).parent)
    assert guard("install") == 0
    assert everything(hook(tree).parent) == installed, "a second time changes nothing"
    assert guard("status") == 0
    assert guard("uninstall") == 0
    assert everything(hook(tree).parent) == before
    assert guard("uninstall") == 0
    assert guard("status") == 1


def test_a_foreign_hook_can_still_refuse(tree: Tree, guard: Guard, workspace: Workspace) -> None:
    put(hook(tree), "#!/bin/sh\nexit 3\n")
    guard("install")
    assert tree.commit("src/a.py").code != 0


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/usr/bin/env python3"])
def test_a_foreign_pre_push_hook_gets_all_that_git_says(
    tree: Tree, guard: Guard, workspace: Workspace, first: str
) -> None:
    tree.must("clone", "-q", "--bare", ".", "../remote.git")
    tree.must("remote", "add", "origin", "../remote.git")
    seen = tree.top.parent / "seen"
    if "python" in first:
        body = f"import sys\nopen({str(seen)!r}, 'w').write(' '.join(sys.argv[1:]) + '\\n' + sys.stdin.read())\n"
    else:
        body = f'echo "$@" > {seen}\ncat >> {seen}\n'
    put(hook(tree, "pre-push"), f"{first}\n{body}")
    guard("install")
    tree.commit("src/a.py")
    tree.must("push", "-q", "origin", "main", "main:other")
    words, *refs = seen.read_text().splitlines()
    assert words == "origin ../remote.git"
    assert sorted(line.split()[2] for line in refs) == ["refs/heads/main", "refs/heads/other"]
    tree.must("push", "-q", "origin", "main")
    assert seen.read_text().splitlines()[1:] == [], "nothing to push is no line at all"


def test_a_link_is_set_aside_and_what_it_leads_to_is_not_touched(
    tree: Tree, guard: Guard, workspace: Workspace
) -> None:
    put(tree.top / "scripts/check.sh", SHELL)
    hook(tree).symlink_to("../../scripts/check.sh")
    before = everything(hook(tree).parent)
    guard("install")
    assert RAN in tree.commit("src/a.py").said
    assert (tree.top / "scripts/check.sh").read_text() == SHELL
    guard("uninstall")
    assert everything(hook(tree).parent) == before


def test_a_hook_that_is_switched_off_stays_off(tree: Tree, guard: Guard, workspace: Workspace) -> None:
    put(hook(tree), SHELL, 0o644)
    before = everything(hook(tree).parent)
    guard("install")
    assert RAN not in tree.commit("src/a.py").said
    guard("uninstall")
    assert everything(hook(tree).parent) == before


def test_hooks_in_a_folder_of_the_project_are_used(tree: Tree, bob: Bob, guard: Guard, workspace: Workspace) -> None:
    """As with husky, whose hooks find their other half by their own name and place."""
    put(tree.top / ".husky/pre-commit", f"echo '{RAN}' >&2\n")
    put(tree.top / ".husky/_/pre-commit", '#!/usr/bin/env sh\n. "$(dirname "$0")/h"\n')
    put(tree.top / ".husky/_/h", 'n=$(basename "$0")\ns=$(dirname "$(dirname "$0")")/$n\nsh -e "$s" "$@"\n')
    tree.must("config", "core.hooksPath", ".husky/_")
    before = everything(tree.top / ".husky/_")
    bob.lease("src/a.py")
    guard("install")
    assert not hook(tree).exists()
    said = tree.commit("src/a.py").said
    assert RAN in said
    assert "leased by bob" in said
    guard("uninstall")
    assert everything(tree.top / ".husky/_") == before


def test_a_folder_of_hooks_that_other_repositories_share_is_not_touched(
    tree: Tree, guard: Guard, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tree.top.parent / "shared-hooks"
    put(shared / "pre-commit", SHELL)
    tree.must("config", "--global", "core.hooksPath", str(shared))
    before = everything(shared)
    assert guard("install") == 1
    assert "which other repositories may use too" in capsys.readouterr().err
    assert guard("uninstall") == 1
    assert everything(shared) == before


def test_drift_is_seen_and_repaired(tree: Tree, guard: Guard, workspace: Workspace) -> None:
    put(hook(tree), SHELL)
    before = everything(hook(tree).parent)
    guard("install")
    installed = everything(hook(tree).parent)
    hook(tree).write_text(hook(tree).read_text().replace("guard check pre-commit", "guard check"))
    assert guard("status") == 1
    guard("install")
    assert everything(hook(tree).parent) == installed
    hook(tree, "pre-push").chmod(0o644)
    assert guard("status") == 1
    guard("install")
    assert hook(tree, "pre-push").stat().st_mode & stat.S_IXUSR
    guard("uninstall")
    assert everything(hook(tree).parent) == before


def test_what_somebody_added_to_our_own_hook_stays(tree: Tree, guard: Guard, workspace: Workspace) -> None:
    guard("install")
    hook(tree).write_text(hook(tree).read_text() + "echo mine\n")
    guard("uninstall")
    assert hook(tree).read_text() == "#!/bin/sh\necho mine\n"
    assert not hook(tree, "pre-push").exists()


def test_what_cannot_be_undone_safely_is_refused(tree: Tree, guard: Guard, workspace: Workspace) -> None:
    put(hook(tree), FOREIGN["python"])
    guard("install")
    hook(tree).write_text(hook(tree).read_text() + "echo mine\n")
    before = everything(hook(tree).parent)
    assert guard("uninstall") == 1
    assert everything(hook(tree).parent) == before
    hook(tree).write_text("#!/bin/sh\n# parley:begin\n")
    assert guard("install") == 1
    assert guard("uninstall") == 1
    put(hook(tree), FOREIGN["python"])
    assert guard("install") == 1, "one is set aside already"
