-- How many bytes of messages are held, kept with every change: what the inbox may be full of. vacuumed_at is when the
-- file was compacted last; 0 before anybody has looked.
CREATE TABLE held (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    bytes INTEGER NOT NULL,
    vacuumed_at INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO held (one, bytes)
SELECT 1, coalesce(sum(octet_length(coalesce(body, sealed)) + octet_length(meta)), 0) FROM inbox;

-- What may be forgotten for room, oldest first. The column itself lies behind the message in its row.
CREATE INDEX inbox_seen ON inbox(seq) WHERE seen_at IS NOT NULL;

CREATE TRIGGER inbox_held_insert AFTER INSERT ON inbox BEGIN
    UPDATE held SET bytes = bytes + octet_length(coalesce(new.body, new.sealed)) + octet_length(new.meta);
END;
CREATE TRIGGER inbox_held_update AFTER UPDATE OF body, sealed, meta ON inbox BEGIN
    UPDATE held SET bytes = bytes
        + octet_length(coalesce(new.body, new.sealed)) + octet_length(new.meta)
        - octet_length(coalesce(old.body, old.sealed)) - octet_length(old.meta);
END;
CREATE TRIGGER inbox_held_delete AFTER DELETE ON inbox BEGIN
    UPDATE held SET bytes = bytes - octet_length(coalesce(old.body, old.sealed)) - octet_length(old.meta);
END;
