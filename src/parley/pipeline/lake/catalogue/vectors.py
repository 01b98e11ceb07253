"""What is computed in bulk from messages: findings of plugins, and vectors.

A row belongs to one version of a message and to what computed it, a plugin by its digest or a model by its fingerprint;
so it stays true whatever happens to the message later, and is never computed twice. Rows of what a message is now are
those whose version is that of ``silver_messages``.
"""

from typing import Final

import pyarrow as pa

from parley.pipeline.lake.tables import PLAIN, Table

_VERSION: Final = [
    pa.field("db_id", pa.string()),
    pa.field("message_id", pa.string()),
    pa.field("version", pa.int64()),
]
_PLUGIN: Final = [pa.field("plugin", pa.string()), pa.field("plugin_digest", pa.string())]
_AT: Final = pa.timestamp("us", tz="UTC")

PLUGIN_FINDINGS: Final = Table(
    layer="silver",
    name="plugin_findings",
    schema=pa.schema(
        [
            *_VERSION,
            *_PLUGIN,
            pa.field("plugin_type", pa.string()),
            # Null where nothing was found, so that a file's statistics tell how much was.
            pa.field("findings_json", pa.string()),
            pa.field("failure", pa.string()),
            pa.field("error", pa.string()),
            pa.field("seconds", pa.float64()),
            pa.field("ran_at", _AT),
        ]
    ),
    meaning="what each plugin found in each version of a message that it was run on in bulk, or how it failed there",
    plain=PLAIN | {"message_id", "findings_json", "error"},
)

PLUGIN_WRITE_BACKS: Final = Table(
    layer="silver",
    name="plugin_write_backs",
    schema=pa.schema(
        [
            *_VERSION,
            *_PLUGIN,
            pa.field("outcome", pa.string()),
            pa.field("event_id", pa.int64()),
            pa.field("error", pa.string()),
            pa.field("written_at", _AT),
        ]
    ),
    meaning="what became of the findings that were sent back to a hub",
    plain=PLAIN | {"message_id"},
)

VECTORS: Final = Table(
    layer="vectors",
    name="messages",
    schema=pa.schema(
        [
            *_VERSION,
            pa.field("model", pa.string()),
            # Null where the model failed.
            pa.field("vector", pa.list_(pa.float32())),
            pa.field("error", pa.string()),
            pa.field("embedded_at", _AT),
        ]
    ),
    meaning="the vector of each version of a message that was embedded, by the fingerprint of its model",
    plain=PLAIN | {"message_id", "vector"},
)

MODELS: Final = Table(
    layer="vectors",
    name="models",
    schema=pa.schema(
        [
            pa.field("fingerprint", pa.string()),
            pa.field("provider", pa.string()),
            pa.field("model", pa.string()),
            pa.field("model_version", pa.string()),
            pa.field("dim", pa.int64()),
            pa.field("quantization", pa.string()),
        ]
    ),
    meaning="the models whose vectors the lake holds",
)

TABLES: Final[tuple[Table, ...]] = (PLUGIN_FINDINGS, PLUGIN_WRITE_BACKS, VECTORS, MODELS)
