"""The program in the sandbox: loads one plugin and calls its function, one message after the other.

It speaks JSON lines on the descriptors that it was started with, and then takes those away from the plugin: what a
plugin prints goes to standard error, and what it reads from standard input is empty, so neither can disturb the
conversation. What goes wrong in a plugin is the answer to that message; the next one finds the worker as it was.
"""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from itertools import islice
from types import ModuleType
from typing import Any, BinaryIO, Final, cast

import msgspec

from parley.core.limits import ENRICHMENTS_PER_MESSAGE_MAX
from parley.plugin.contract import ERROR_CHARS_MAX, Answer, Message, Task

_FRAMES_SHOWN: Final = 3
_HERE: Final = __file__
_NOT_LISTS: Final[tuple[type[Any], ...]] = (str, bytes, dict)
"""They can be walked through, but nobody means that."""
Function = Callable[[Message, dict[str, Any]], Any]


def main() -> None:
    """Runs until the hub closes the line."""
    converse(*own_lines())


def own_lines() -> tuple[BinaryIO, BinaryIO]:
    """The lines that come in and those that go out, taken away from whatever code is loaded after this."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # not kept back in a buffer of its own, which a crash would lose
    return requests, answers


def converse(requests: BinaryIO, answers: BinaryIO) -> None:
    """The conversation: a task, then messages, each with its answer."""
    _say(answers, Answer(0))
    task = msgspec.json.decode(requests.readline(), type=Task)
    try:
        function = load(task)
    except BaseException as error:
        _say(answers, Answer(1, error=describe(error)))
        return
    _say(answers, Answer(1))
    decoder = msgspec.json.Decoder(Message)
    for number, line in enumerate(requests, start=2):
        answers.write(answer_to(number, decoder.decode(line), function, task) + b"\n")
        answers.flush()


def load(task: Task) -> Function:
    """The plugin's function. Raises whatever the module raises while it is imported."""
    module = load_module(task.entry, task.path)
    function = getattr(module, task.function, None)
    if not callable(function):
        raise TypeError(f"{task.entry} has no function {task.function}(message, config)")
    return function


def load_module(name: str, path: str | None) -> ModuleType:
    """The module in this file, or the one that the interpreter finds by its name."""
    return importlib.import_module(name) if path is None else _load_file(name, path)


def _load_file(name: str, path: str) -> ModuleType:
    """The module of this file under its own name, whatever else has that name."""
    is_package = path.endswith("/__init__.py")
    folder = path.rpartition("/")[0]
    sys.path.insert(0, folder.rpartition("/")[0] if is_package else folder)
    inner = [folder] if is_package else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=inner)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def answer_to(number: int, message: Message, function: Function, task: Task) -> bytes:
    """The line for one message: what the plugin returned, or how it failed."""
    try:
        results = collect(function(message, task.config), task.function)
        if not outweighs(results, task.output_bytes):
            line = msgspec.json.encode(Answer(number, results=results))
            if len(line) <= task.output_bytes:
                return line
        why = f"{task.function}() returned too many bytes; it may return {task.output_bytes}"
    except BaseException as error:
        why = describe(error)
    return msgspec.json.encode(Answer(number, error=why))


def collect(returned: Any, function: str) -> list[Any]:
    """What a function returned or yielded, at once or later, as a list; None counts as nothing found."""
    if hasattr(returned, "__await__") or hasattr(returned, "__aiter__"):
        import asyncio

        returned = asyncio.run(_later(returned))
    if returned is None:
        return []
    if isinstance(returned, _NOT_LISTS) or not hasattr(returned, "__iter__"):
        kind = cast(object, returned).__class__.__name__
        raise TypeError(f"{function}() must return a list, not {kind}")
    return list(islice(returned, ENRICHMENTS_PER_MESSAGE_MAX + 1))  # one more shows that there are too many


def outweighs(results: list[Any], most: int) -> bool:
    """Whether the results are surely longer than so many bytes of JSON.

    It is looked at before they are encoded: the encoder ends the process where the memory for its buffer is refused.
    """
    weight, waiting = 0, [*results]
    while waiting and weight <= most:
        value = waiting.pop()
        weight += 1
        if isinstance(value, str | bytes):
            weight += len(value)
        elif isinstance(value, dict):
            waiting += cast(dict[Any, Any], value).keys()
            waiting += cast(dict[Any, Any], value).values()
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += cast(list[Any], value)
        elif isinstance(value, msgspec.Struct):
            waiting += (getattr(value, name) for name in value.__struct_fields__)
    return weight > most


async def _later(returned: Any) -> Any:
    if hasattr(returned, "__await__"):
        return await returned
    found: list[Any] = []
    async for each in returned:
        found.append(each)
        if len(found) > ENRICHMENTS_PER_MESSAGE_MAX:
            break
    return found


def describe(error: BaseException) -> str:
    """The error and the last places in the plugin that led to it, short enough for a log line."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = f"{type(error).__name__}, whose text cannot be shown"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != _HERE]
    own = [frame for frame in frames if not frame.filename.startswith("<frozen")][-_FRAMES_SHOWN:]
    places = ", then ".join(f"{frame.filename}, line {frame.lineno}, in {frame.name}" for frame in own)
    text = f"{text} ({places})" if places else text
    return text[:ERROR_CHARS_MAX].encode("utf-8", "backslashreplace").decode()


def _say(answers: BinaryIO, answer: Answer) -> None:
    answers.write(msgspec.json.encode(answer) + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
