-- What a bus remembers across restarts. Fingerprints are 32 bytes, nonces 24, message ids 16; times are milliseconds.

-- "PBus": no other database is taken for a store.
PRAGMA application_id = 1346532723;

CREATE TABLE identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    agent BLOB NOT NULL CHECK (length(agent) = 32),
    user BLOB NOT NULL CHECK (length(user) = 32)
) STRICT;

-- The last block of outgoing sequences that was reserved ends before this one.
CREATE TABLE counter (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    upcoming INTEGER NOT NULL CHECK (upcoming > 0)
) STRICT;
INSERT INTO counter VALUES (1, 1);

-- The highest sequence taken from each peer, and what is held of it and for it. Kept for good: an old key may return.
CREATE TABLE peer (
    fingerprint BLOB PRIMARY KEY CHECK (length(fingerprint) = 32),
    mark INTEGER NOT NULL DEFAULT 0 CHECK (mark >= 0),
    inbox_items INTEGER NOT NULL DEFAULT 0 CHECK (inbox_items >= 0),
    outbox_items INTEGER NOT NULL DEFAULT 0 CHECK (outbox_items >= 0)
) STRICT, WITHOUT ROWID;

-- Ids are without a gap, since a nonce that is known is never inserted: the last 4,096 are the ring.
CREATE TABLE nonce (
    id INTEGER PRIMARY KEY,
    nonce BLOB NOT NULL UNIQUE CHECK (length(nonce) = 24)
) STRICT;

CREATE TABLE message_id (
    peer BLOB NOT NULL,
    message_id BLOB NOT NULL CHECK (length(message_id) = 16),
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (peer, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_id_seen_at ON message_id (seen_at);

CREATE TABLE calls (
    certificate BLOB PRIMARY KEY CHECK (length(certificate) = 32),
    calls INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Accepted, and its handler has not returned.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    peer BLOB NOT NULL,
    message_id BLOB NOT NULL,
    payload BLOB NOT NULL,
    admitted_at INTEGER NOT NULL,
    dispatches INTEGER NOT NULL,
    wedged INTEGER NOT NULL DEFAULT 0 CHECK (wedged IN (0, 1))
) STRICT;

CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    peer BLOB NOT NULL,
    message_id BLOB NOT NULL UNIQUE CHECK (length(message_id) = 16),
    payload BLOB NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    attempts INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    wedged TEXT,
    last_error TEXT
) STRICT;
CREATE INDEX outbox_not_before ON outbox (not_before);
CREATE INDEX outbox_expires_at ON outbox (expires_at);

CREATE TABLE expired (
    number INTEGER PRIMARY KEY,
    id INTEGER NOT NULL,
    peer BLOB NOT NULL,
    message_id BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expired_at INTEGER NOT NULL,
    why TEXT
) STRICT;

-- What the two boxes hold, so that nobody has to count.
CREATE TABLE held (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    inbox_items INTEGER NOT NULL CHECK (inbox_items >= 0),
    inbox_bytes INTEGER NOT NULL CHECK (inbox_bytes >= 0),
    outbox_items INTEGER NOT NULL CHECK (outbox_items >= 0),
    outbox_bytes INTEGER NOT NULL CHECK (outbox_bytes >= 0)
) STRICT;
INSERT INTO held VALUES (1, 0, 0, 0, 0);

CREATE TRIGGER inbox_put AFTER INSERT ON inbox BEGIN
    UPDATE held SET inbox_items = inbox_items + 1, inbox_bytes = inbox_bytes + length(NEW.payload);
    UPDATE peer SET inbox_items = inbox_items + 1 WHERE fingerprint = NEW.peer;
END;
CREATE TRIGGER inbox_taken AFTER DELETE ON inbox BEGIN
    UPDATE held SET inbox_items = inbox_items - 1, inbox_bytes = inbox_bytes - length(OLD.payload);
    UPDATE peer SET inbox_items = inbox_items - 1 WHERE fingerprint = OLD.peer;
END;
CREATE TRIGGER outbox_put AFTER INSERT ON outbox BEGIN
    UPDATE held SET outbox_items = outbox_items + 1, outbox_bytes = outbox_bytes + length(NEW.payload);
    INSERT INTO peer (fingerprint, outbox_items) VALUES (NEW.peer, 1)
        ON CONFLICT (fingerprint) DO UPDATE SET outbox_items = outbox_items + 1;
END;
CREATE TRIGGER outbox_taken AFTER DELETE ON outbox BEGIN
    UPDATE held SET outbox_items = outbox_items - 1, outbox_bytes = outbox_bytes - length(OLD.payload);
    UPDATE peer SET outbox_items = outbox_items - 1 WHERE fingerprint = OLD.peer;
END;
