"""The program in the sandbox that runs an embedder: loads one object and lets it embed what it is sent."""

from collections.abc import Iterable
from typing import Any, BinaryIO

import msgspec

from parley.pipeline.embed.contract import Identity, Load, Said, Texts
from parley.plugin.worker import describe, load_module, own_lines


def converse(requests: BinaryIO, answers: BinaryIO) -> None:
    """The conversation: what to load, then texts, each line with its answer."""
    _say(answers, Said(0))
    load = msgspec.json.decode(requests.readline(), type=Load)
    try:
        embedder = load_embedder(load)
        identity = msgspec.convert(embedder.identity, Identity, from_attributes=True)
    except BaseException as error:
        _say(answers, Said(1, error=describe(error)))
        return
    _say(answers, Said(1, identity))
    decoder = msgspec.json.Decoder(Texts)
    for number, line in enumerate(requests, start=2):
        _say(answers, answer_to(number, embedder, decoder.decode(line).texts))


def load_embedder(load: Load) -> Any:
    """The object of that name; of a class or a function, what it makes when it is called."""
    found: Any = load_module(load.entry, load.path)
    for name in load.attribute.split("."):
        found = getattr(found, name)
    return found if hasattr(found, "embed") and not isinstance(found, type) else found()


def answer_to(number: int, embedder: Any, texts: list[str]) -> Said:
    """The vectors of the texts, as plain numbers, or how it failed."""
    try:
        return Said(number, vectors=[_numbers(vector) for vector in embedder.embed(texts)])
    except BaseException as error:
        return Said(number, error=describe(error))


def _numbers(vector: Iterable[Any]) -> list[float]:
    return [float(number) for number in vector]


def _say(answers: BinaryIO, said: Said) -> None:
    answers.write(msgspec.json.encode(said) + b"\n")
    answers.flush()


if __name__ == "__main__":
    converse(*own_lines())
