"""What a tool is: a name, a sentence for the model, its arguments as a struct, and what it does.

The struct is both the schema that the model is shown and the check of what it sends. Schemas are paid for by every
conversation, so they are written without what a model does not need.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec
from msgspec import Meta

from parley.client.call import check_key
from parley.core.errors import InvalidInput
from parley.mcp.context import AgentContext
from parley.mcp.results import Result

Detail = Annotated[Literal["ids", "short", "full"], Meta(description="short: one-line previews")]
Key = Annotated[str | None, Meta(description="repeat it to retry safely; made up if absent")]
Topic = Annotated[str, Meta(description="topic or task id")]
Channel = Annotated[str, Meta(description="name or id")]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model may send. A name that is not there is a mistake of the model that it should be told of."""


class Tool(NamedTuple):
    """One tool."""

    name: str
    about: str
    arguments: type[msgspec.Struct]
    run: Callable[[AgentContext, Any], Awaitable[Result]]
    writes: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The arguments as the model is shown them."""
        return compact_schema(self.arguments)

    async def call(self, context: AgentContext, arguments: Mapping[str, Any]) -> Result:
        """Checks the arguments and does it. Raises a ``ParleyError``."""
        try:
            given = msgspec.convert(dict(arguments), self.arguments, strict=False)
        except msgspec.ValidationError as error:
            from parley.wire.validation_errors import (
                in_words,  # it knows the protocols of meshes too: not at every start
            )

            raise InvalidInput(f"{self.name}: {in_words(error)}") from None
        # The schema does not tell this, since models make up good keys by themselves.
        check_key(getattr(given, "idempotency_key", None))
        return await self.run(context, given)


def compact_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a struct, without titles, references, nulls and defaults that only repeat the text."""
    (schema,), components = msgspec.json.schema_components([arguments], ref_template="{name}")
    return cast(dict[str, Any], _compact(components[schema["$ref"]] if "$ref" in schema else schema, components))


def _compact(schema: Any, components: Mapping[str, Any]) -> Any:
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return [_compact(each, components) for each in cast(Sequence[Any], schema)]
    if not isinstance(schema, Mapping):
        return schema
    found = cast(Mapping[str, Any], schema)
    if "$ref" in found:
        return _compact(components[found["$ref"]], components)
    found = _without_null(found)
    kept = {name: value for name, value in found.items() if name not in ("title", "default")}
    if "properties" in kept:
        kept.pop("description", None)  # the struct's own docstring is for readers of the code
        kept["properties"] = {name: _compact(each, components) for name, each in kept["properties"].items()}
        if not kept.get("required"):
            kept.pop("required", None)
        return kept
    if found.get("default") not in (None, "", msgspec.UNSET):
        kept["default"] = found["default"]
    return {name: value if name == "default" else _compact(value, components) for name, value in kept.items()}


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A value that may be null may as well be left out, which is how models do it."""
    options = schema.get("anyOf")
    if options is None:
        return schema
    real = [each for each in options if each.get("type") != "null"]
    others = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**real[0], **others} if len(real) == 1 else {**others, "anyOf": real}
