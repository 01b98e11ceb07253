"""The guard in real repositories: who is named, what is blocked, and what is nobody's business."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from parley.app.make import make_workspace
from parley.client import Client
from parley.guard import git
from parley.workspace.layout import Workspace
from tests.guard.conftest import Guard
from tests.guard.repositories import Bob, Tree


def block(workspace: Workspace) -> None:
    workspace.config.write_text('[guard]\nmode = "block"\n')


def test_by_default_the_holder_is_named_and_the_commit_goes_through(tree: Tree, bob: Bob, guard: Guard) -> None:
    bob.lease("src/**", reason="the refactoring")
    assert guard("install") == 0
    done = tree.commit("src/a.py", "docs/x.md")
    assert done.code == 0
    assert "parley: src/a.py is leased by bob until 2" in done.said
    assert "(the refactoring)" in done.said
    assert "docs/x.md" not in done.said
    assert tree.commit("docs/x.md").said.count("parley:") == 0


def test_where_the_workspace_asks_for_it_the_commit_is_blocked(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace
) -> None:
    block(workspace)
    bob.lease("src/a.py")
    guard("install")
    done = tree.commit("src/a.py")
    assert done.code != 0
    assert "src/a.py is leased by bob" in done.said
    assert "PARLEY_GUARD=off" in done.said
    tree.must("reset", "-q", "--hard")
    assert tree.commit("src/b.py").code == 0


def test_own_shared_released_and_ended_leases_are_not_in_the_way(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace
) -> None:
    block(workspace)
    bob.lease("src/a.py", holder="ann")
    bob.lease("src/b.py", mode="shared")
    released = bob.lease("docs/x.md")
    bob.release(released)
    guard("install")
    done = tree.commit("src/a.py", "src/b.py", "docs/x.md")
    assert (done.code, done.said.count("parley:")) == (0, 0)


def test_a_bypass_that_no_hub_can_record_is_one_all_the_same(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace
) -> None:
    block(workspace)
    bob.lease("src/a.py")
    guard("install")
    assert "leased by bob" in tree.commit("src/a.py").said
    bypassed = tree.git("commit", "-m", "anyway", PARLEY_GUARD="off")
    assert bypassed.code == 0
    assert "could not be recorded" in bypassed.said


def test_renames_and_deletions_count_with_the_names_that_go_and_come(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace
) -> None:
    block(workspace)
    bob.lease("src/a.py", "new/**")
    guard("install")
    tree.must("mv", "src/a.py", "docs/a.py")
    assert "src/a.py is leased by bob" in tree.git("commit", "-m", "away").said
    tree.must("reset", "-q", "--hard")
    tree.must("rm", "-q", "src/a.py")
    assert tree.git("commit", "-m", "gone").code != 0
    tree.must("reset", "-q", "--hard")
    (tree.top / "new").mkdir()
    tree.must("mv", "src/b.py", "new/b é.py")
    assert "new/b é.py is leased by bob" in tree.git("commit", "-m", "there").said


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("w\\x", "src/w\\x"),
        ("a\nparley: b", r"'src/a\nparley: b'"),
        ("é\t", r"'src/é\t'"),
        ("\udcff", r"'src/\udcff'"),
        ("a" * 200 + "/" + "b" * 200 + "/" + "c" * 200, "src/aaa"),
    ],
    ids=["backslash", "line break", "tab", "no text", "long"],
)
def test_a_name_that_no_lease_can_have_is_covered_by_the_lease_of_its_folder(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace, name: str, told: str
) -> None:
    block(workspace)
    bob.lease("src/**", "docs/x.md")
    guard("install")
    assert tree.commit(f"docs/{name}").code == 0
    stopped = tree.commit(f"src/{name}")
    assert stopped.code != 0
    assert f"parley: {told}" in stopped.said
    assert stopped.said.count("is leased by bob") == 1
    tree.must("add", "-A")
    assert guard("check", "--json") == 2


def test_only_what_is_committed_counts(tree: Tree, bob: Bob, guard: Guard, workspace: Workspace) -> None:
    block(workspace)
    bob.lease("src/a.py")
    guard("install")
    tree.write("src/a.py", "changed\n")
    tree.write("src/b.py", "changed\n")
    assert tree.git("commit", "-m", "one", "src/b.py").code == 0
    assert tree.git("commit", "-am", "the other").code != 0


def test_a_merge_is_asked_only_for_what_it_changes_itself(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace
) -> None:
    tree.must("switch", "-q", "-c", "side")
    assert tree.commit("src/a.py", "docs/x.md").code == 0
    tree.must("switch", "-q", "main")
    assert tree.commit("docs/x.md").code == 0
    block(workspace)
    bob.lease("src/a.py")
    guard("install")
    assert tree.git("merge", "side").code != 0, "docs/x.md is in conflict"
    tree.write("docs/x.md", "both\n")
    tree.must("add", "docs/x.md")
    done = tree.git("commit", "--no-edit")
    assert done.code == 0, "src/a.py comes unchanged from the other side"
    tree.must("reset", "-q", "--hard", "HEAD~1")
    tree.git("merge", "side")
    tree.write("docs/x.md", "both\n")
    tree.write("src/a.py", "changed in the merge\n")
    tree.must("add", "-A")
    assert "src/a.py is leased by bob" in tree.git("commit", "--no-edit").said


def test_the_first_commit_of_a_repository_is_checked_too(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace
) -> None:
    block(workspace)
    bob.lease("src/a.py")
    guard("install")
    tree.must("switch", "-q", "--orphan", "empty")
    assert tree.commit("src/a.py").code != 0


def test_a_linked_working_tree_has_the_leases_of_the_main_one(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace
) -> None:
    block(workspace)
    bob.lease("src/a.py")
    guard("install")
    tree.must("worktree", "add", "-q", "../linked")
    linked = Tree(tree.top.parent / "linked")
    assert "src/a.py is leased by bob" in linked.commit("src/a.py").said
    linked.must("reset", "-q", "--hard")
    assert linked.commit("src/b.py").code == 0
    status = subprocess.run(
        [sys.executable, "-m", "parley", "guard", "status", "--json"],
        cwd=linked.top,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert json.loads(status.stdout)["installed"] is True


@pytest.fixture
def remote(tree: Tree) -> Tree:
    """The other side, which has what the repository has."""
    tree.must("clone", "-q", "--bare", ".", "../remote.git")
    tree.must("remote", "add", "origin", "../remote.git")
    tree.must("fetch", "-q", "origin")
    return tree


def test_a_push_is_checked_for_all_it_brings(remote: Tree, bob: Bob, guard: Guard, workspace: Workspace) -> None:
    tree = remote
    assert tree.commit("src/a.py").code == 0
    assert tree.commit("src/b.py").code == 0
    block(workspace)
    lease = bob.lease("src/a.py")
    guard("install")
    done = tree.git("push", "origin", "main")
    assert done.code != 0
    assert "src/a.py is leased by bob" in done.said
    assert "src/b.py" not in done.said
    assert tree.git("push", "origin", "main:another").code != 0, "a new branch brings the same commits"
    assert tree.git("push", "origin", "HEAD~2:refs/heads/old").code == 0, "what is there already brings nothing"
    assert tree.git("push", "origin", ":old").code == 0, "what goes brings nothing"
    bob.release(lease)
    assert tree.git("push", "origin", "main").code == 0


def test_a_bypass_is_known_to_the_holder(tree: Tree, client: Client, guard: Guard, workspace: Workspace) -> None:
    block(workspace)
    client.acquire_lease(["src/a.py", "odd/**"], "bob")
    guard("install")
    before = client.read_events(tail=1).replay_until
    done = tree.commit("src/a.py", "odd/\n@carol\udcff", PARLEY_GUARD="off")
    assert done.code == 0
    assert "the holders were told" in done.said
    [event] = [each for each in client.read_events(before).events if each.name == "message.created"]
    message = event.data_json["message"]
    assert message["sender"] == "ann"
    assert "`src/a.py`, leased by @bob" in message["content_raw"]
    assert r"`'odd/\n@carol\udcff'`, leased by @bob" in message["content_raw"]
    assert tree.commit("src/a.py", PARLEY_GUARD="off").code == 0, "the second time in the same topic"
    unseen = client.read_events(tail=1).replay_until
    assert tree.commit("src/b.py", PARLEY_GUARD="off").code == 0
    assert client.read_events(tail=1).replay_until == unseen, "where nothing was in the way, nothing is told"
    tree.write("src/a.py", "again\n")
    assert tree.git("commit", "--no-verify", "-am", "git's own way around").code == 0


def test_a_repository_without_a_workspace_is_left_alone(
    tree: Tree, guard: Guard, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guard("install", "--json") == 1
    assert json.loads(capsys.readouterr().out)["code"] == "GUARD_REFUSED"
    assert guard("check") == 0
    assert capsys.readouterr() == ("", "")
    assert not (tree.top / ".git/hooks/pre-commit").exists()


def test_a_workspace_above_a_repository_is_not_its_own(
    tree: Tree, bob: Bob, guard: Guard, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Tree(tree.top / "vendor")
    inner.top.mkdir()
    inner.must("init", "-q")
    monkeypatch.chdir(inner.top)
    assert guard("install") == 1
    block(workspace)
    bob.lease("vendor/**")
    inner.write("a.py")
    inner.must("add", "-A")
    assert guard("check") == 0


def test_a_workspace_in_a_part_of_a_repository_guards_that_part(tree: Tree, guard: Guard) -> None:
    (tree.top / "services/shop").mkdir(parents=True)
    workspace, _ = make_workspace(tree.top / "services/shop")
    Bob(workspace).lease("a.py")
    assert guard("install", "-w", str(workspace.root)) == 0
    said = tree.commit("services/shop/a.py", "a.py").said
    assert said.count("a.py is leased by bob") == 1


def test_trouble_with_the_workspace_never_stops_git(tree: Tree, bob: Bob, guard: Guard, workspace: Workspace) -> None:
    bob.lease("src/a.py")
    guard("install")
    workspace.config.write_text('[guard]\nmode = "bolck"\n')
    done = tree.commit("src/a.py")
    assert done.code == 0
    assert "so the guard only warns" in done.said
    assert "leased by bob" in done.said
    workspace.config.write_text('[guard]\nmode = "off"\n')
    assert "leased by bob" not in tree.commit("src/a.py").said
    block(workspace)
    workspace.db.write_bytes(b"no database" * 1000)
    done = tree.commit("src/a.py")
    assert done.code == 0
    assert "were not checked" in done.said


def test_without_parley_on_the_path_git_goes_on_and_says_so(tree: Tree, guard: Guard, workspace: Workspace) -> None:
    guard("install")
    done = tree.commit("src/a.py", PATH="/usr/bin:/bin")
    assert done.code == 0
    assert "not on the PATH" in done.said


def test_outside_of_a_repository_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guard: Guard) -> None:
    (tmp_path / "nowhere").mkdir()
    monkeypatch.chdir(tmp_path / "nowhere")
    assert guard("install") == 1
    assert guard("status") == 1
    assert guard("check") == 0


def test_folders_and_branches_may_be_named_by_what_other_programs_take_for_the_end_of_a_line(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "one\u2028two\x85three")
    tree.top.mkdir()
    tree.must("init", "-q", "-b", "main")
    assert tree.commit("src/a.py").code == 0
    found = git.find_repository(tree.top)
    assert found is not None
    assert found.top == tree.top
    head, branch = tree.git("rev-parse", "HEAD").said.strip(), "refs/heads/one\u2028two\x85three"
    told = f"{branch} {head} {branch} {'0' * 40}\n"
    assert git.pushed_paths(tree.top, "origin", git.ref_lines(told)) == ["src/a.py"]
