"""The parts of the docs that are made from a server's table of endpoints."""

from collections.abc import Sequence
from typing import Any, cast, get_args

import msgspec
from msgspec import inspect

from parley.serve.endpoint import Endpoint
from scripts.doc_tables import code, table

Endpoints = Sequence[Endpoint[Any]]


def endpoints(listed: Endpoints) -> str:
    """Every endpoint of a server."""
    rows = (
        (
            f"`{each.method} {each.path}`",
            each.summary + ("; open to all" if each.public else "; not for the page" if each.token_only else ""),
            _name_of(each.body),
            "; ".join(f"{status} {answer_name(kind)}" for status, kind in sorted(each.answers.items(), reverse=True)),
            code(*dict.fromkeys(error.code for error in each.errors)),
        )
        for each in listed
    )
    return table("request|what it does|body|success|refusals of its own", rows)


def parameters(listed: Endpoints) -> str:
    """What may stand in the query of each request."""
    rows = (
        (
            f"`{each.method} {each.path}`",
            f"`{param.name}`{' (required)' if param.required else ''}{' (repeatable)' if param.repeatable else ''}",
            param.meaning,
            param.choices[0] if param.choices else "" if param.default is None else param.default,
            ", ".join(param.choices) or _bounds(param.low, param.high),
        )
        for each in listed
        for param in each.params
    )
    return table("request|parameter|meaning|default|bounds", rows)


def bodies(listed: Endpoints) -> str:
    """The bodies of requests."""
    rows: list[tuple[str, str, str, str]] = []
    for kind in (kind for each in listed for kind in _alternatives(each.body)):
        described = _described(kind)
        if described.tag is not None:
            rows.append((_name_of(kind), code(described.tag_field), f'always `"{described.tag}"`', "required"))
        for field in described.fields:
            needed = "required" if field.required else "optional"
            rows.append((_name_of(kind), code(field.name), _shape(field.type), needed))
    return table("body|member|value|", rows)


def answers(listed: Endpoints) -> str:
    """The bodies of answers, each followed by the structs that are first met in it."""
    kinds = [kind for each in listed for answer in each.answers.values() for kind in _alternatives(answer)]
    waiting: list[inspect.Type] = [_described(kind) for kind in kinds if kind not in (bytes, dict)]
    rows: dict[str, str] = {}
    while waiting:
        described = waiting.pop(0)
        if isinstance(described, inspect.StructType) and (name := code(described.cls.__name__)) not in rows:
            omits = described.cls.__struct_config__.omit_defaults
            rows[name] = "; ".join(
                f"{code(field.name)}: {_shape(field.type)}{', may be absent' if _may_be_absent(field, omits) else ''}"
                for field in described.fields
            )
            waiting = [inner for field in described.fields for inner in _inner(field.type)] + waiting
    return table("body|members", rows.items())


def _described(kind: Any) -> inspect.StructType:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return described


def _inner(kind: inspect.Type) -> list[inspect.Type]:
    """The types inside a list or a union."""
    match kind:
        case inspect.UnionType():
            return [inner for each in kind.types for inner in _inner(each)]
        case inspect.ListType():
            return _inner(kind.item_type)
        case _:
            return [kind]


def _alternatives(kind: Any) -> tuple[Any, ...]:
    """The types of a union or a tuple, or the one type; none of them for None."""
    if isinstance(kind, tuple):
        return cast("tuple[Any, ...]", kind)
    return get_args(kind) or (() if kind is None else (kind,))


def _name_of(kind: Any) -> str:
    return code(*(each.__name__ for each in _alternatives(kind)))


def answer_name(kind: Any) -> str:
    """What an answer is, in a word."""
    shown = {bytes: "text", dict: "a JSON object"}
    return " or ".join(shown.get(each) or code(each.__name__) for each in _alternatives(kind)) or "nothing"


def _shape(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata():
            described = (kind.extra_json_schema or {}).get("description")
            return f"{_shape(kind.type)}: {described}" if described else _shape(kind.type)
        case inspect.UnionType():
            return " or ".join(_shape(each) for each in kind.types if not _is_unset(each))
        case inspect.StrType():
            return "text" + (f", {bounds} characters" if (bounds := _bounds(kind.min_length, kind.max_length)) else "")
        case inspect.IntType():
            return "whole number" + (f", {bounds}" if (bounds := _bounds(kind.ge, kind.le)) else "")
        case inspect.LiteralType():
            return "one of " + code(*kind.values)
        case inspect.DictType():
            return "JSON object"
        case inspect.ListType():
            return f"list of {_shape(kind.item_type)}"
        case inspect.StructType():
            return code(kind.cls.__name__)
        case inspect.BoolType():
            return "true or false"
        case inspect.FloatType():
            return "number"
        case inspect.NoneType():
            return "null"
        case inspect.AnyType():
            return "any JSON"
        case _:
            raise TypeError(f"no words for {kind}")


def _is_unset(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.CustomType) and kind.cls is msgspec.UnsetType


def _may_be_absent(field: inspect.Field, omits_defaults: bool) -> bool:
    unset = isinstance(field.type, inspect.UnionType) and any(map(_is_unset, field.type.types))
    return unset or (omits_defaults and not field.required)


def _bounds(low: int | None, high: int | None) -> str:
    if low is not None and high is not None:
        return f"{low:,} to {high:,}"
    return f"at least {low:,}" if low is not None else f"at most {high:,}" if high is not None else ""
