"""``parley attachment``: structured grounding of a topic."""

import json
from typing import Annotated, Any, cast

import typer

from parley.cli.call import Call, command, group
from parley.cli.choices import TopicIdOption, require_topic
from parley.cli.plain import plain
from parley.core.errors import InvalidInput

app = group("Add and list the attachments of a topic.")


@command(app, "add")
def add(
    call: Call,
    topic_id: TopicIdOption,
    kind: Annotated[str, typer.Option("--kind", metavar="WORD", help="What it is: url, file, decision …")],
    value_json: Annotated[str, typer.Option("--value-json", metavar="JSON", help="A JSON object.")],
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="A namespace within the kind.")] = None,
    source_message_id: Annotated[
        str | None, typer.Option("--source-message-id", metavar="ID", help="The message it came from.")
    ] = None,
    dedupe_key: Annotated[
        str | None, typer.Option("--dedupe-key", metavar="TEXT", help="The same key is stored once per topic.")
    ] = None,
) -> None:
    """Add an attachment to a topic."""
    value = _object(value_json)
    with call.client() as client:
        result = client.add_attachment(
            topic_id, kind, value, key=key, source_message_id=source_message_id, dedupe_key=dedupe_key
        )
    if call.json:
        call.out.data(
            {
                "attachment": plain(result.attachment),
                "attachment_id": result.attachment.id,
                "event_id": result.event_id,
                "deduplicated": result.event_id is None,
            }
        )
    else:
        call.out.line(result.attachment.id)


@command(app, "list")
def list_attachments(
    call: Call,
    topic_id: TopicIdOption,
    kind: Annotated[str | None, typer.Option("--kind", metavar="WORD", help="Only this kind.")] = None,
) -> None:
    """List a topic's attachments, the newest first."""
    from parley.workspace import queries

    with call.reading() as reading:
        require_topic(reading, topic_id)
        attachments = queries.list_attachments(reading, topic_id, kind=kind)
    if call.json:
        call.out.listing("attachments", plain(attachments))
    else:
        call.out.table(
            ["id", "kind", "key", "value"],
            [[each.id, each.kind, each.key, json.dumps(each.value_json, ensure_ascii=False)] for each in attachments],
            empty="No attachments.",
        )


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--value-json is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInput("--value-json must be a JSON object.")
    return cast("dict[str, Any]", value)
