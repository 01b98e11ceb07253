-- The hub's tables. Names and columns are Agentlip's, so that its command line reads this file; what differs is said
-- where it differs. IF NOT EXISTS lets an adopted Agentlip file keep the tables that are the same in both.

CREATE TABLE IF NOT EXISTS meta (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS channels (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT,
    created_at TEXT NOT NULL,
    CHECK (length(name) > 0 AND length(name) <= 100)
) STRICT;

CREATE TABLE IF NOT EXISTS topics (
    id TEXT PRIMARY KEY NOT NULL,
    channel_id TEXT NOT NULL,
    title TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    FOREIGN KEY (channel_id) REFERENCES channels(id) ON DELETE RESTRICT,
    UNIQUE (channel_id, title),
    CHECK (length(title) > 0 AND length(title) <= 200)
) STRICT;

CREATE INDEX IF NOT EXISTS idx_topics_channel ON topics(channel_id, updated_at DESC);

-- seq is the order of creation. It is an explicit key because VACUUM may renumber implicit row ids, and both the
-- full-text index and every page's position refer to it. Each further index would be paid for by every insert.
CREATE TABLE IF NOT EXISTS messages (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    topic_id TEXT NOT NULL,
    channel_id TEXT NOT NULL,
    sender TEXT NOT NULL,
    content_raw TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    created_at TEXT NOT NULL,
    edited_at TEXT,
    deleted_at TEXT,
    deleted_by TEXT,
    reply_to TEXT,
    FOREIGN KEY (topic_id) REFERENCES topics(id) ON DELETE RESTRICT,
    CHECK (length(sender) > 0),
    CHECK (length(content_raw) <= 65536),
    CHECK (version >= 1)
) STRICT;

CREATE INDEX IF NOT EXISTS idx_messages_topic ON messages(topic_id, seq);
CREATE INDEX IF NOT EXISTS idx_messages_channel ON messages(channel_id, seq);

-- An archive sets meta.archive_in_progress and removes it within its own transaction, so nobody else ever sees it.
CREATE TRIGGER IF NOT EXISTS prevent_message_delete
BEFORE DELETE ON messages
WHEN NOT EXISTS (SELECT 1 FROM meta WHERE key = 'archive_in_progress')
BEGIN
    SELECT RAISE(ABORT, 'Hard deletes forbidden on messages; use tombstone');
END;

CREATE TABLE IF NOT EXISTS events (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    ts TEXT NOT NULL,
    name TEXT NOT NULL,
    scope_channel_id TEXT,
    scope_topic_id TEXT,
    scope_topic_id2 TEXT,
    entity_type TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    data_json TEXT NOT NULL,
    CHECK (length(name) > 0)
) STRICT;

CREATE INDEX IF NOT EXISTS idx_events_scope_channel ON events(scope_channel_id, event_id);
CREATE INDEX IF NOT EXISTS idx_events_scope_topic ON events(scope_topic_id, event_id);
CREATE INDEX IF NOT EXISTS idx_events_scope_topic2 ON events(scope_topic_id2, event_id)
    WHERE scope_topic_id2 IS NOT NULL;

CREATE TRIGGER IF NOT EXISTS prevent_event_mutation
BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'Events are immutable');
END;

CREATE TRIGGER IF NOT EXISTS prevent_event_delete
BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM meta WHERE key = 'archive_in_progress')
BEGIN
    SELECT RAISE(ABORT, 'Events are append-only');
END;

CREATE TABLE IF NOT EXISTS topic_attachments (
    id TEXT PRIMARY KEY NOT NULL,
    topic_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT,
    value_json TEXT NOT NULL,
    dedupe_key TEXT NOT NULL,
    source_message_id TEXT,
    created_at TEXT NOT NULL,
    FOREIGN KEY (topic_id) REFERENCES topics(id) ON DELETE RESTRICT,
    FOREIGN KEY (source_message_id) REFERENCES messages(id) ON DELETE SET NULL,
    CHECK (length(kind) > 0),
    CHECK (length(dedupe_key) > 0),
    CHECK (length(value_json) <= 16384)
) STRICT;

CREATE INDEX IF NOT EXISTS idx_attachments_topic ON topic_attachments(topic_id, created_at DESC);
CREATE UNIQUE INDEX IF NOT EXISTS idx_topic_attachments_dedupe
    ON topic_attachments(topic_id, kind, COALESCE(key, ''), dedupe_key);
-- Without it, each message that an archive takes away would cost a scan of this table.
CREATE INDEX IF NOT EXISTS idx_attachments_source ON topic_attachments(source_message_id)
    WHERE source_message_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS enrichments (
    id TEXT PRIMARY KEY NOT NULL,
    message_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    span_start INTEGER NOT NULL,
    span_end INTEGER NOT NULL,
    data_json TEXT NOT NULL,
    created_at TEXT NOT NULL,
    FOREIGN KEY (message_id) REFERENCES messages(id) ON DELETE CASCADE,
    CHECK (span_start >= 0),
    CHECK (span_end > span_start),
    CHECK (length(kind) > 0)
) STRICT;

CREATE INDEX IF NOT EXISTS idx_enrichments_message ON enrichments(message_id, created_at DESC);

CREATE TABLE idempotency_keys (
    key TEXT PRIMARY KEY NOT NULL,
    fingerprint BLOB NOT NULL,
    operation TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    event_id INTEGER,
    move_id INTEGER,
    created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_idempotency_keys_created ON idempotency_keys(created_at);

-- A move too large for one transaction: its selection, how far it got, and the events it wrote.
CREATE TABLE moves (
    id INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    channel_id TEXT NOT NULL,
    from_topic_id TEXT NOT NULL,
    to_topic_id TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('one', 'later', 'all')),
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    moved INTEGER NOT NULL DEFAULT 0,
    event_ranges TEXT NOT NULL DEFAULT '[]',
    created_at TEXT NOT NULL,
    finished_at TEXT
) STRICT;

CREATE INDEX idx_moves_unfinished ON moves(id) WHERE finished_at IS NULL;

CREATE TABLE archives (
    name TEXT PRIMARY KEY NOT NULL,
    sha256 TEXT NOT NULL,
    up_to_event_id INTEGER NOT NULL,
    events INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
