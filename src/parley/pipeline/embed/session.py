"""An embedder that plugs in, in one locked-in process, driven from outside: texts in, checked vectors out.

It is believed as little as a plugin: each answer has to come in time and to be one vector for each text, and each
vector to have the promised size and a length of 1. The process sees the Python environment and nothing else of the
machine, and no network, so a model must be installed with its weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from parley.core import untrusted_json
from parley.core.errors import InvalidInput, NotFound, PluginFailed
from parley.core.models import ModelIdentity
from parley.pipeline.embed.contract import Load, Said, Texts
from parley.plugin.contract import ERROR_CHARS_MAX
from parley.sandbox import Jail, JailError, Policy, python_command
from parley.sandbox.policy import MIB

WORKER: Final = "parley.pipeline.embed.worker"
APP_FOLDER: Final = "/app"
LOAD_SECONDS: Final = 120.0
"""For Python and the model to be loaded, from however slow a disk."""
ANSWER_SECONDS: Final = 60.0
"""For one line of texts."""
LENGTH_TOLERANCE: Final = 1e-3
"""How far the square of a vector's length may be from 1; numbers with 16 bits are no more exact."""
MEMORY_BYTES: Final = 8 * 1024 * MIB
OUTPUT_BYTES: Final = 64 * MIB
CPU_SECONDS: Final = 24 * 3600
PROCESSES: Final = 64
OPEN_FILES: Final = 256
"""A model has threads of its own, and libraries that open many files."""


@dataclass(frozen=True, slots=True)
class Pluggable:
    """Where an embedder is found: ``module:attribute`` of an installed module, or ``path.py:attribute``."""

    load: Load
    files: dict[str, bytes] = field(default_factory=dict[str, bytes], repr=False)

    @classmethod
    def parse(cls, name: str) -> "Pluggable":
        """Reads what somebody wrote. Raises ``InvalidInput``, or ``NotFound`` if there is no such file."""
        module, _, attribute = name.rpartition(":")
        if not module or not all(part.isidentifier() for part in attribute.split(".")):
            raise InvalidInput(f"{name} is no model: give module:attribute or path.py:attribute", field="model")
        if not module.endswith(".py"):
            return cls(Load(module, None, attribute))
        path = Path(module)
        try:
            return cls(Load(path.stem, f"{APP_FOLDER}/{path.name}", attribute), {path.name: path.read_bytes()})
        except OSError as error:
            raise NotFound(f"{path} cannot be read: {error.strerror}", model=name) from error


class EmbedderSession:
    """A process that runs one embedder. Used by one thread, with ``with``."""

    def __init__(self, pluggable: Pluggable, hidden: tuple[Path, ...] = ()) -> None:
        """``hidden`` is what must never be visible to it: the state folders of workspaces."""
        self._load = pluggable.load
        self._policy = Policy(
            files=pluggable.files,
            hidden=hidden,
            deadline_seconds=ANSWER_SECONDS,
            memory_bytes=MEMORY_BYTES,
            cpu_seconds=CPU_SECONDS,
            output_bytes=OUTPUT_BYTES,
            processes=PROCESSES,
            open_files=OPEN_FILES,
        )
        self._jail: Jail | None = None
        self._identity: ModelIdentity | None = None
        self._number = 0

    def __enter__(self) -> "EmbedderSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process, if it runs."""
        jail, self._jail = self._jail, None
        if jail is not None:
            jail.close()

    def identity(self) -> ModelIdentity:
        """What the embedder says that it is; the process is started for that. Raises ``PluginFailed``."""
        self._running()
        assert self._identity is not None
        return self._identity

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of the texts. Raises ``PluginFailed``, after which the process is started anew when needed."""
        jail = self._running()
        assert self._identity is not None
        try:
            jail.send(msgspec.json.encode(Texts(list(texts))) + b"\n")
            said = self._receive(jail, ANSWER_SECONDS)
        except JailError as error:
            raise self._failed(_words(error)) from error
        if said.error is not None:
            raise PluginFailed(said.error[:ERROR_CHARS_MAX], reason="error")
        problem = vectors_problem(said.vectors or [], len(texts), self._identity.dim)
        if problem is not None:
            raise PluginFailed(problem, reason="invalid")
        return said.vectors or []

    def _running(self) -> Jail:
        if self._jail is None:
            self._start()
        assert self._jail is not None
        return self._jail

    def _start(self) -> None:
        try:
            self._jail = jail = Jail(python_command(WORKER), self._policy)
            self._number = 0
            self._receive(jail, LOAD_SECONDS)
            jail.send(msgspec.json.encode(self._load) + b"\n")
            said = self._receive(jail, LOAD_SECONDS)
        except JailError as error:
            raise self._failed(f"The embedder does not start: {_words(error)}") from error
        if said.identity is None:
            raise self._failed(f"The embedder does not start: {(said.error or '')[:ERROR_CHARS_MAX]}")
        try:
            identity = ModelIdentity(**msgspec.structs.asdict(said.identity))
        except InvalidInput as error:
            raise self._failed(f"The embedder says what it is in a wrong way: {error.message}") from error
        if self._identity not in (None, identity):
            raise self._failed("The embedder says that it is another model than before")
        self._identity = identity

    def _receive(self, jail: Jail, seconds: float) -> Said:
        line = jail.receive_line(seconds)
        try:
            said = untrusted_json.decode(line, Said)
        except msgspec.DecodeError as error:
            raise JailError("ended", f"it wrote something that is no answer: {error}") from None
        if said.number != self._number:
            raise JailError("ended", f"it gave answer {said.number} where answer {self._number} was due")
        self._number += 1
        return said

    def _failed(self, text: str) -> PluginFailed:
        last_words = "" if self._jail is None else self._jail.error_text.strip().rpartition("\n")[2]
        self.close()
        return PluginFailed(f"{text}; the last it said was: {last_words}" if last_words else text, reason="crash")


def vectors_problem(vectors: Sequence[Sequence[float]], texts: int, dim: int) -> str | None:
    """What is wrong with the vectors, if anything is."""
    if len(vectors) != texts:
        return f"embed() returned {len(vectors)} vectors for {texts} texts"
    for vector in vectors:
        if len(vector) != dim:
            return f"embed() returned a vector of {len(vector)} numbers; the model has {dim}"
        square = sum(number * number for number in vector)
        # A sum that is no number is near nothing, so it fails here too.
        if square != 0 and not abs(square - 1) <= LENGTH_TOLERANCE:
            return f"embed() returned a vector of length {math.sqrt(square):g}; it must be 1"
    return None


def _words(error: JailError) -> str:
    if error.reason == "timeout":
        return "it took too long"
    return error.message[:1].lower() + error.message[1:ERROR_CHARS_MAX]
