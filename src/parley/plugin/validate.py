"""What a plugin returned, believed only as far as the hub's own rules go.

An enrichment or an attachment of a plugin meets the rules that one of a client meets, and so does what a client stores
in a plugin's name. The first mistake is a failure of the whole: half of what was found would look like all of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from parley.core import limits
from parley.core.errors import InvalidInput, PayloadTooLarge
from parley.core.metadata import check_metadata
from parley.plugin.contract import Attachment, Enrichment
from parley.wire.events import Enrichment as WireEnrichment
from parley.wire.requests import AddAttachment
from parley.wire.validation_errors import in_words

T = TypeVar("T")


class Findings(NamedTuple):
    """What a plugin found in one message, ready to be stored."""

    enrichments: tuple[WireEnrichment, ...] = ()
    attachments: tuple[AddAttachment, ...] = ()


class Read(Protocol):
    """The message that was looked at."""

    @property
    def id(self) -> str: ...
    @property
    def content_raw(self) -> str: ...


def check_enrichments(message: Read, results: Sequence[Any], bytes_max: int, source: str = "enrich()") -> Findings:
    """What ``enrich`` returned, or whatever else ``source`` names. Raises ``InvalidInput`` with the number of the
    result and what is wrong with it."""
    characters = len(message.content_raw)

    def check(result: Any) -> tuple[WireEnrichment, str]:
        each = _typed(result, Enrichment)
        start, end = each.span.start, each.span.end
        if not 0 <= start < end <= characters:
            raise InvalidInput(f"the span from {start} to {end} is not a part of the content's {characters} characters")
        text = check_metadata(each.kind, each.data, bytes_max, field="data")
        return WireEnrichment(each.kind, each.span, each.data), text

    return Findings(enrichments=_all(source, results, limits.ENRICHMENTS_PER_MESSAGE_MAX, check))


def check_attachments(message: Read, results: Sequence[Any], bytes_max: int, source: str = "extract()") -> Findings:
    """What ``extract`` returned, or whatever else ``source`` names. Raises ``InvalidInput`` with the number of the
    result and what is wrong with it."""

    def check(result: Any) -> tuple[AddAttachment, str]:
        each = _typed(result, Attachment)
        text = check_metadata(each.kind, each.value_json, bytes_max)
        return AddAttachment(each.kind, each.value_json, each.key, each.dedupe_key, message.id), text

    return Findings(attachments=_all(source, results, limits.EXTRACTED_PER_MESSAGE_MAX, check))


def _all(source: str, results: Sequence[Any], most: int, check: Callable[[Any], tuple[T, str]]) -> tuple[T, ...]:
    if len(results) > most:
        raise InvalidInput(f"{source} returned more than {most} results")
    found: list[T] = []
    room = limits.FINDINGS_BYTES_MAX
    for number, result in enumerate(results, start=1):
        try:
            each, text = check(result)
        except (InvalidInput, PayloadTooLarge) as error:
            raise InvalidInput(f"{source}, result {number}: {error.message}") from None
        found.append(each)
        room -= len(text.encode())
        if room < 0:
            raise InvalidInput(
                f"{source}, result {number}: more than {limits.FINDINGS_BYTES_MAX} bytes of metadata in all"
            )
    return tuple(found)


def _typed(result: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(result, kind, from_attributes=True)
    except msgspec.ValidationError as error:
        raise InvalidInput(in_words(error)) from None
