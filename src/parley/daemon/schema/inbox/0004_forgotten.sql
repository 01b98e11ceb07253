-- What was in the inbox and is not any more: a broker that delivers it again is acknowledged, and nothing is stored.
CREATE TABLE forgotten (
    mesh_id TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    recipient_id TEXT NOT NULL,
    client_message_id TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, sender_id, recipient_id, client_message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX forgotten_received ON forgotten(received_at);
CREATE TRIGGER inbox_forgotten AFTER DELETE ON inbox BEGIN
    INSERT OR IGNORE INTO forgotten (mesh_id, sender_id, recipient_id, client_message_id, received_at)
    VALUES (old.mesh_id, old.sender_id, old.recipient_id, old.client_message_id, old.received_at);
END;
