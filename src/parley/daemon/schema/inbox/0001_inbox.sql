-- What arrived at this machine. The key of a message holds its sender and its recipient: nobody can keep another's
-- message out by using its id first. Times are milliseconds since the epoch.

CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    mesh_id TEXT NOT NULL,
    client_message_id TEXT NOT NULL,
    broker_message_id TEXT NOT NULL,
    history_id INTEGER NOT NULL,
    sender_id TEXT NOT NULL,
    sender_pubkey TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    recipient_id TEXT NOT NULL,
    destination_kind TEXT NOT NULL CHECK (destination_kind IN ('topic', 'dm', 'queue')),
    destination_ref TEXT NOT NULL,
    priority TEXT NOT NULL,
    reply_to_id TEXT,
    mentioned INTEGER NOT NULL CHECK (mentioned IN (0, 1)),
    -- The sealed bytes stay until they could be opened.
    body TEXT,
    meta TEXT NOT NULL DEFAULT '{}',
    sealed BLOB,
    key_epoch INTEGER,
    accepted_at TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    seen_at INTEGER,
    UNIQUE (mesh_id, sender_id, recipient_id, client_message_id),
    CHECK ((body IS NULL) = (sealed IS NOT NULL))
) STRICT;

CREATE INDEX inbox_received ON inbox(received_at);
CREATE INDEX inbox_unseen ON inbox(seq) WHERE seen_at IS NULL;
CREATE INDEX inbox_sealed ON inbox(mesh_id, seq) WHERE sealed IS NOT NULL;
CREATE INDEX inbox_topic ON inbox(destination_ref, seq) WHERE destination_kind = 'topic';
CREATE INDEX inbox_sender ON inbox(sender_pubkey, seq);

CREATE VIRTUAL TABLE inbox_fts USING fts5(body, content='inbox', content_rowid='seq');
CREATE TRIGGER inbox_fts_insert AFTER INSERT ON inbox WHEN new.body IS NOT NULL BEGIN
    INSERT INTO inbox_fts (rowid, body) VALUES (new.seq, new.body);
END;
CREATE TRIGGER inbox_fts_open AFTER UPDATE OF body ON inbox WHEN old.body IS NULL AND new.body IS NOT NULL BEGIN
    INSERT INTO inbox_fts (rowid, body) VALUES (new.seq, new.body);
END;
CREATE TRIGGER inbox_fts_delete AFTER DELETE ON inbox WHEN old.body IS NOT NULL BEGIN
    INSERT INTO inbox_fts (inbox_fts, rowid, body) VALUES ('delete', old.seq, old.body);
END;

-- What the daemon saw, in order, for those who follow it. A message's event names its row.
CREATE TABLE event (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    mesh_id TEXT,
    inbox_seq INTEGER,
    data TEXT NOT NULL
) STRICT;
