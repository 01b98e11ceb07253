-- Why a message is not shown as said, if it is not: its sender was removed, did not sign it, or lied about the roster.
-- What waits is tried again as soon as more of the roster was read, and is shown to nobody before.
ALTER TABLE inbox ADD COLUMN refused TEXT;
ALTER TABLE inbox ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;

-- A message that was refused is none that a key could open.
DROP TRIGGER held_insert;
DROP TRIGGER held_message;
DROP TRIGGER held_delete;
CREATE TRIGGER held_insert AFTER INSERT ON inbox BEGIN
    UPDATE held SET
        bytes = bytes + octet_length(coalesce(new.body, new.sealed)) + octet_length(new.meta) + 1024,
        unseen = unseen + (new.seen_at IS NULL),
        sealed = sealed + (new.sealed IS NOT NULL AND new.refused IS NULL);
END;
CREATE TRIGGER held_message AFTER UPDATE OF body, sealed, meta, refused ON inbox BEGIN
    UPDATE held SET
        bytes = bytes
            + octet_length(coalesce(new.body, new.sealed)) + octet_length(new.meta)
            - octet_length(coalesce(old.body, old.sealed)) - octet_length(old.meta),
        sealed = sealed
            + (new.sealed IS NOT NULL AND new.refused IS NULL) - (old.sealed IS NOT NULL AND old.refused IS NULL);
END;
CREATE TRIGGER held_delete AFTER DELETE ON inbox BEGIN
    UPDATE held SET
        bytes = bytes - octet_length(coalesce(old.body, old.sealed)) - octet_length(old.meta) - 1024,
        unseen = unseen - (old.seen_at IS NULL),
        sealed = sealed - (old.sealed IS NOT NULL AND old.refused IS NULL);
END;
