"""An embedder that plugs in, in the real sandbox."""

from pathlib import Path

import pytest

from parley.core.errors import InvalidInput, NotFound, PluginFailed, PluginUnavailable
from parley.core.models import ModelIdentity
from parley.pipeline.embed import models
from parley.pipeline.embed.models import DEFAULT, choose_model
from parley.pipeline.embed.session import EmbedderSession, Pluggable, vectors_problem
from tests.pipeline.embed.embedders import LETTERS, written


@pytest.fixture
def letters(tmp_path: Path) -> str:
    return written(tmp_path)


def test_it_says_what_it_is_and_embeds(letters: str) -> None:
    model = choose_model(letters)
    assert model.identity == ModelIdentity("tests", "letters", "1", 2)
    with model.opened() as embed:
        assert embed(["a", "bb", ""]) == [([1.0, 0.0], None), ([0.0, 1.0], None), ([0.0, 0.0], None)]


def test_our_own_needs_no_process() -> None:
    model = choose_model()
    assert model.pluggable is None
    with model.opened() as embed:
        ((vector, error),) = embed(["hello"])
    assert (len(vector), error) == (384, None)
    assert choose_model(DEFAULT) == model


def test_an_installed_module_is_found_by_its_name_and_a_class_is_called() -> None:
    model = choose_model("parley.core.ngrams:HashedNgrams")
    assert model.identity == choose_model().identity
    with model.opened() as embed, choose_model().opened() as ours:
        ((one, _),), ((other, _),) = embed(["hello there"]), ours(["hello there"])
    assert one == other.tolist()


def test_of_texts_that_fail_together_only_those_to_blame_are_lost(letters: str) -> None:
    texts = ["a", "crash", "b", "raise", "long", "a"]
    with choose_model(letters).opened() as embed:
        found = embed(texts)
        assert embed(["b"]) == [([0.0, 1.0], None)]
    assert [vector for vector, _ in found] == [[1.0, 0.0], None, [0.0, 1.0], None, None, [1.0, 0.0]]
    crashed, raised, long = (error or "" for _, error in (found[1], found[3], found[4]))
    assert "exit code 3" in crashed
    assert "ValueError: no" in raised
    assert long == "embed() returned a vector of length 2; it must be 1"


def test_it_does_not_see_the_files_around_its_own(tmp_path: Path) -> None:
    name = written(
        tmp_path,
        LETTERS.replace(
            "def embed(self, texts):",
            f"def embed(self, texts):\n        assert not os.path.exists({str(tmp_path)!r})",
        ),
    )
    with choose_model(name, (tmp_path,)).opened() as embed:
        assert embed(["a"]) == [([1.0, 0.0], None)]


@pytest.mark.parametrize("name", ["nothing", ":x", "module:", "module:a-b", "a.py"])
def test_what_is_no_name_of_a_model_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        choose_model(name)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        choose_model(f"{tmp_path}/none.py:Letters")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("class Letters", "class Others"), "has no attribute 'Letters'"),
        (('"tests"', '""'), "provider of a model must be"),
        (("2)", "0)"), "dim of a model must be"),
        (("import os", "import no_such_module"), "No module named"),
    ],
)
def test_one_that_cannot_be_loaded_is_unavailable(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    with pytest.raises(PluginUnavailable, match=told):
        choose_model(written(tmp_path, LETTERS.replace(*change, 1)))


def test_without_a_sandbox_nothing_that_plugs_in_runs(letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "missing", lambda: ("The kernel has no Landlock",))
    with pytest.raises(PluginUnavailable, match="The kernel has no Landlock"):
        choose_model(letters)
    assert choose_model().identity.provider == "parley"


def test_one_that_is_another_model_after_a_crash_is_not_gone_on_with(tmp_path: Path) -> None:
    changing = LETTERS.replace('"letters"', "str(os.getpid() + time.time_ns())").replace("import os", "import os, time")
    with EmbedderSession(Pluggable.parse(written(tmp_path, changing))) as session:
        session.identity()
        with pytest.raises(PluginFailed, match="exit code 3"):
            session.embed(["crash"])
        with pytest.raises(PluginFailed, match="another model than before"):
            session.embed(["a"])


@pytest.mark.parametrize(
    ("vectors", "told"),
    [
        ([[1.0, 0.0]], "1 vectors for 2 texts"),
        ([[1.0, 0.0], [1.0]], "a vector of 1 numbers; the model has 2"),
        ([[1.0, 0.0], [1.0, 1.0]], "a vector of length 1.41421"),
        ([[1.0, 0.0], [float("nan"), 0.0]], "a vector of length nan"),
        ([[1.0, 0.0], [float("inf"), 0.0]], "a vector of length inf"),
    ],
)
def test_vectors_that_break_the_contract_are_named(vectors: list[list[float]], told: str) -> None:
    assert told in (vectors_problem(vectors, 2, 2) or "")


def test_vectors_that_keep_it_pass() -> None:
    assert vectors_problem([[1.0, 0.0], [0.6, 0.8], [0.0, 0.0]], 3, 2) is None
