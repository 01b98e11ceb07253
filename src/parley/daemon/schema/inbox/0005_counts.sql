-- How many messages nobody has seen and how many no key opens, kept with every change, so that asking costs the same
-- however many there are.
CREATE TABLE inbox_count (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    unseen INTEGER NOT NULL,
    sealed INTEGER NOT NULL
) STRICT;
INSERT INTO inbox_count (one, unseen, sealed)
SELECT 1, count(*) FILTER (WHERE seen_at IS NULL), count(*) FILTER (WHERE sealed IS NOT NULL) FROM inbox;

CREATE TRIGGER inbox_count_insert AFTER INSERT ON inbox BEGIN
    UPDATE inbox_count SET unseen = unseen + (new.seen_at IS NULL), sealed = sealed + (new.sealed IS NOT NULL);
END;
CREATE TRIGGER inbox_count_update AFTER UPDATE OF seen_at, sealed ON inbox BEGIN
    UPDATE inbox_count SET
        unseen = unseen + (new.seen_at IS NULL) - (old.seen_at IS NULL),
        sealed = sealed + (new.sealed IS NOT NULL) - (old.sealed IS NOT NULL);
END;
CREATE TRIGGER inbox_count_delete AFTER DELETE ON inbox WHEN old.seen_at IS NULL OR old.sealed IS NOT NULL BEGIN
    UPDATE inbox_count SET unseen = unseen - (old.seen_at IS NULL), sealed = sealed - (old.sealed IS NOT NULL);
END;
