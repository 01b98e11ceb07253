"""Which model embeds: our own, which runs as it is, or one that plugs in, which runs locked in."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from parley.core.errors import PluginFailed, PluginUnavailable
from parley.core.models import ModelIdentity, model_fingerprint
from parley.core.ngrams import IDENTITY
from parley.pipeline.embed.session import EmbedderSession, Pluggable
from parley.sandbox import missing

DEFAULT: Final = IDENTITY.model
"""What ``--model`` calls our own."""
TEXTS_AT_ONCE: Final = 32
"""Texts in one line to a locked-in process: models are quicker with several, and a failure costs them all a second
try."""

Embed = Callable[[Sequence[str]], list[tuple[Any, str | None]]]
"""A vector for each text, or None and what went wrong."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is ready to run. It can be handed to a task."""

    identity: ModelIdentity
    pluggable: Pluggable | None = None
    hidden: tuple[Path, ...] = ()

    @property
    def fingerprint(self) -> str:
        """What stands for it beside each vector."""
        return model_fingerprint(self.identity)

    @contextmanager
    def opened(self) -> Generator[Embed]:
        """The model at work; what it needs is ended at the end."""
        if self.pluggable is None:
            from parley.pipeline.embed.ngrams import embed_texts

            yield lambda texts: [(vector, None) for vector in embed_texts(texts)]
            return
        with EmbedderSession(self.pluggable, self.hidden) as session:
            if session.identity() != self.identity:
                raise PluginFailed("The embedder says that it is another model here than where the job began")
            yield lambda texts: _one_after_another(session, texts)


def choose_model(name: str = DEFAULT, hidden: tuple[Path, ...] = ()) -> Model:
    """The model of this name: ours, or ``module:attribute`` or ``path.py:attribute``, asked once what it is.

    Raises ``InvalidInput`` or ``NotFound`` for a name that leads nowhere, ``PluginUnavailable`` if it cannot run here.
    """
    if name == DEFAULT:
        return Model(IDENTITY)
    pluggable = Pluggable.parse(name)
    lacking = missing()
    if lacking:
        raise PluginUnavailable(f"The sandbox cannot lock {name} in here: {'; '.join(lacking)}", model=name)
    try:
        with EmbedderSession(pluggable, hidden) as session:
            return Model(session.identity(), pluggable, hidden)
    except PluginFailed as error:
        raise PluginUnavailable(f"{name} cannot run: {error.message}", model=name) from error


def _one_after_another(session: EmbedderSession, texts: Sequence[str]) -> list[tuple[Any, str | None]]:
    """The texts in lines of some; of a line that fails each by itself, so that only what is to blame is lost."""
    found: list[tuple[Any, str | None]] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        line = texts[start : start + TEXTS_AT_ONCE]
        try:
            found += [(vector, None) for vector in session.embed(line)]
        except PluginFailed:
            found += [_one(session, text) for text in line]
    return found


def _one(session: EmbedderSession, text: str) -> tuple[Any, str | None]:
    try:
        return session.embed([text])[0], None
    except PluginFailed as error:
        return None, error.message
