-- How many bytes of messages are held, kept with every change: what pruning can free, and so what the outbox may be full
-- of. vacuumed_at is when the file was compacted last; 0 before anybody has looked.
CREATE TABLE held (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    bytes INTEGER NOT NULL,
    vacuumed_at INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO held (one, bytes)
SELECT 1, coalesce(sum(octet_length(payload) + octet_length(sealed) + octet_length(meta)), 0) FROM outbox;

CREATE TRIGGER outbox_held_insert AFTER INSERT ON outbox BEGIN
    UPDATE held SET bytes = bytes + octet_length(new.payload) + octet_length(new.sealed) + octet_length(new.meta);
END;
CREATE TRIGGER outbox_held_update AFTER UPDATE OF payload, sealed, meta ON outbox BEGIN
    UPDATE held SET bytes = bytes
        + octet_length(new.payload) + octet_length(new.sealed) + octet_length(new.meta)
        - octet_length(old.payload) - octet_length(old.sealed) - octet_length(old.meta);
END;
CREATE TRIGGER outbox_held_delete AFTER DELETE ON outbox BEGIN
    UPDATE held SET bytes = bytes - octet_length(old.payload) - octet_length(old.sealed) - octet_length(old.meta);
END;

-- What can be pruned, without what was, by when it was sent or given up.
CREATE INDEX outbox_unpruned ON outbox(coalesce(delivered_at, aborted_at))
WHERE pruned_at IS NULL AND status IN ('done', 'aborted');
