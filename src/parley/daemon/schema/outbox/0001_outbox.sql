-- What this machine was asked to send. A row is written before its sender is answered and is never deleted: its
-- client_message_id stays bound to it for good. Times are milliseconds since the epoch.

CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    client_message_id TEXT NOT NULL UNIQUE,
    request_fingerprint BLOB NOT NULL CHECK (length(request_fingerprint) = 32),
    mesh_id TEXT NOT NULL,
    -- What the caller wrote, and what it was resolved to.
    to_spec TEXT NOT NULL,
    destination_kind TEXT NOT NULL CHECK (destination_kind IN ('topic', 'dm', 'queue')),
    destination_ref TEXT NOT NULL,
    reply_to_id TEXT,
    priority TEXT NOT NULL CHECK (priority IN ('now', 'next', 'low')),
    meta TEXT NOT NULL DEFAULT '{}',
    mentions TEXT NOT NULL DEFAULT '[]',
    payload BLOB NOT NULL,
    -- What goes to the broker, frozen: a retry is the same bytes.
    sender_identity TEXT NOT NULL,
    sealed BLOB NOT NULL,
    key_epoch INTEGER,
    wire_fingerprint BLOB NOT NULL CHECK (length(wire_fingerprint) = 32),
    enqueued_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'inflight', 'done', 'dead', 'aborted')),
    last_error TEXT,
    delivered_at INTEGER,
    broker_message_id TEXT,
    history_id INTEGER,
    aborted_at INTEGER,
    aborted_by TEXT,
    superseded_by TEXT,
    pruned_at INTEGER,
    CHECK (status <> 'done' OR broker_message_id IS NOT NULL),
    CHECK ((status = 'aborted') = (aborted_at IS NOT NULL))
) STRICT;

CREATE INDEX outbox_due ON outbox(mesh_id, next_attempt_at, seq) WHERE status = 'pending';
CREATE INDEX outbox_inflight ON outbox(mesh_id, seq) WHERE status = 'inflight';
CREATE INDEX outbox_status ON outbox(status, seq);
CREATE INDEX outbox_superseded ON outbox(superseded_by) WHERE superseded_by IS NOT NULL;

-- What the broker of a mesh promised when it was last reached: limits hold while it is away, too.
CREATE TABLE mesh_terms (
    mesh_id TEXT PRIMARY KEY NOT NULL,
    inline_bytes_max INTEGER NOT NULL,
    max_age_ms INTEGER NOT NULL,
    agreed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
