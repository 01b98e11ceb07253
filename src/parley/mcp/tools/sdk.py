"""A tool for every method of the client, made from the method itself.

Its arguments are the method's, its sentence is the first of the method's own; so what the SDK learns, an agent can do.
The agent's own name is filled in, since nobody speaks for somebody else here.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta

from parley.client import AsyncClient
from parley.client.call import Read
from parley.mcp.context import AgentContext
from parley.mcp.link import new_key
from parley.mcp.results import RESERVED_BYTES, Result, encoded
from parley.mcp.toolbox import Arguments, Key, Tool
from parley.mcp.untrusted_text import NOTICE, block, cut

PREFIX: Final = "hub_"
"""Sets these apart from the tools that are made for agents, some of which have the same verb."""
KEY: Final = "idempotency_key"
OWN_NAME: Final = frozenset({"sender", "actor", "holder", "created_by"})
"""Parameters of writes that the client fills with the name it was made with."""
_ASKING: Final = frozenset({"health", "ping", "status", "move_preview", "list_plugins"})
"""Methods that change nothing, besides all reads."""

FromChar = Annotated[int, Meta(ge=0, description="next_char of a result that was cut")]


class Method(NamedTuple):
    """A method of the client, and the function that describes it."""

    name: str
    describe: Callable[..., Any]

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        answer = get_type_hints(self.describe)["return"]
        return get_origin(answer) is not Read and self.name not in _ASKING

    @property
    def parameters(self) -> Mapping[str, tuple[Any, Any]]:
        """Type and default of each parameter that the caller gives, in order."""
        hints = get_type_hints(self.describe, include_extras=True)
        given = list(inspect.signature(self.describe).parameters.values())[1:]
        filled = OWN_NAME if self.writes else frozenset[str]()  # in a read such a name is what is looked for
        return {each.name: (hints[each.name], each.default) for each in given if each.name not in filled}


def methods() -> Iterator[Method]:
    """Every call that the client can make, by name."""
    for name, member in sorted(vars(AsyncClient).items()):
        if inspect.isfunction(member) and hasattr(member, "__wrapped__"):
            yield Method(name, inspect.unwrap(member))


def tool_of(method: Method) -> Tool:
    """The tool that calls a method."""
    fields: list[Any] = []
    for name, (kind, default) in method.parameters.items():
        shown = Key if name == KEY else kind
        fields.append((name, shown) if default is inspect.Parameter.empty else (name, shown, default))
    if not method.writes:
        fields.append(("from_char", FromChar, 0))
    arguments = msgspec.defstruct(f"{method.name}_arguments", fields, bases=(Arguments,), kw_only=True, frozen=True)
    about = (inspect.getdoc(method.describe) or "").partition("\n\n")[0].replace("``", "").replace("\n", " ")

    async def run(context: AgentContext, given: Any) -> Result:
        named = {name: value for name in method.parameters if (value := getattr(given, name)) is not UNSET}
        if KEY in named:
            named[KEY] = named[KEY] or new_key()
        return await _call(context, method, named, getattr(given, "from_char", 0))

    return Tool(PREFIX + method.name, about, arguments, run, writes=method.writes)


async def _call(context: AgentContext, method: Method, named: dict[str, Any], from_char: int) -> Result:
    key = {KEY: named[KEY]} if KEY in named else {}
    while True:
        answer = await context.link.call(lambda client: getattr(client, method.name)(**named))
        plain = msgspec.to_builtins(answer)
        text = msgspec.json.encode(plain).decode()
        whole = Result(f"{NOTICE}\n{block(text)}", {"notice": NOTICE, "result": plain, **key})
        if encoded(whole.data) + encoded(whole.text) + RESERVED_BYTES <= context.result_bytes_max and not from_char:
            return whole
        # Fewer rows with a cursor are better than a piece of many; only what is too large by itself is cut.
        limit = named.get("limit")
        if from_char or limit is None or limit == 1:
            return _piece(context, text, from_char, key)
        named["limit"] = limit // 2


def _piece(context: AgentContext, text: str, from_char: int, key: dict[str, str]) -> Result:
    """A part of an answer that is too large, as it is written in JSON."""
    text, room = text[from_char:], context.result_bytes_max - RESERVED_BYTES
    end = cut(text, lambda part: encoded(part) + encoded(block(part)) <= room)
    data: dict[str, Any] = {"notice": NOTICE, "part": text[:end], "from_char": from_char, **key}
    lines = [NOTICE, block(text[:end])]
    if end < len(text):
        data["next_char"] = from_char + end
        lines.append(f"(cut; go on with from_char={data['next_char']})")
    return Result("\n".join(lines), data)


TOOLS = tuple(tool_of(method) for method in methods())
