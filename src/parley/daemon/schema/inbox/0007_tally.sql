-- All counts in one row, so that a message that arrives is one change more. 1,024 bytes of each message are for what it
-- takes besides what it says: its other columns, the indexes, its event. Without them many small messages would fill a
-- disk long before they fill the inbox.
DROP TRIGGER inbox_count_insert;
DROP TRIGGER inbox_count_update;
DROP TRIGGER inbox_count_delete;
DROP TRIGGER inbox_held_insert;
DROP TRIGGER inbox_held_update;
DROP TRIGGER inbox_held_delete;
ALTER TABLE held ADD COLUMN unseen INTEGER NOT NULL DEFAULT 0;
ALTER TABLE held ADD COLUMN sealed INTEGER NOT NULL DEFAULT 0;
UPDATE held SET
    bytes = bytes + 1024 * (SELECT count(*) FROM inbox),
    unseen = (SELECT unseen FROM inbox_count),
    sealed = (SELECT sealed FROM inbox_count);
DROP TABLE inbox_count;
CREATE VIEW held_bytes AS SELECT bytes FROM held;

-- Nothing could use them: a page's filters may each be absent, so it is read along seq. Every message paid for both.
DROP INDEX inbox_topic;
DROP INDEX inbox_sender;

CREATE TRIGGER held_insert AFTER INSERT ON inbox BEGIN
    UPDATE held SET
        bytes = bytes + octet_length(coalesce(new.body, new.sealed)) + octet_length(new.meta) + 1024,
        unseen = unseen + (new.seen_at IS NULL),
        sealed = sealed + (new.sealed IS NOT NULL);
END;
-- Two triggers: one that names the message has it read.
CREATE TRIGGER held_seen AFTER UPDATE OF seen_at ON inbox BEGIN
    UPDATE held SET unseen = unseen + (new.seen_at IS NULL) - (old.seen_at IS NULL);
END;
CREATE TRIGGER held_message AFTER UPDATE OF body, sealed, meta ON inbox BEGIN
    UPDATE held SET
        bytes = bytes
            + octet_length(coalesce(new.body, new.sealed)) + octet_length(new.meta)
            - octet_length(coalesce(old.body, old.sealed)) - octet_length(old.meta),
        sealed = sealed + (new.sealed IS NOT NULL) - (old.sealed IS NOT NULL);
END;
CREATE TRIGGER held_delete AFTER DELETE ON inbox BEGIN
    UPDATE held SET
        bytes = bytes - octet_length(coalesce(old.body, old.sealed)) - octet_length(old.meta) - 1024,
        unseen = unseen - (old.seen_at IS NULL),
        sealed = sealed - (old.sealed IS NOT NULL);
END;
