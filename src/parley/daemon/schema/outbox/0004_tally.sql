-- All counts of a mesh in one row, so that a change of a message's state is one change more.
DROP TRIGGER outbox_count_insert;
DROP TRIGGER outbox_count_update;
DROP TRIGGER outbox_count_delete;
DROP TRIGGER outbox_held_insert;
DROP TRIGGER outbox_held_update;
DROP TRIGGER outbox_held_delete;
DROP TABLE outbox_count;
ALTER TABLE held DROP COLUMN bytes;

CREATE TABLE tally (
    mesh_id TEXT PRIMARY KEY NOT NULL,
    pending INTEGER NOT NULL DEFAULT 0,
    inflight INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    aborted INTEGER NOT NULL DEFAULT 0,
    -- Of the messages themselves: what pruning can free, and so what the outbox may be full of.
    bytes INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO tally (mesh_id, pending, inflight, done, dead, aborted, bytes)
SELECT
    mesh_id,
    count(*) FILTER (WHERE status = 'pending'),
    count(*) FILTER (WHERE status = 'inflight'),
    count(*) FILTER (WHERE status = 'done'),
    count(*) FILTER (WHERE status = 'dead'),
    count(*) FILTER (WHERE status = 'aborted'),
    sum(octet_length(payload) + octet_length(sealed) + octet_length(meta))
FROM outbox GROUP BY mesh_id;
CREATE VIEW held_bytes AS SELECT coalesce(sum(bytes), 0) AS bytes FROM tally;

-- Not one statement with ON CONFLICT DO UPDATE: an INSERT OR IGNORE that fires the trigger would make it ignore, too.
CREATE TRIGGER tally_insert AFTER INSERT ON outbox BEGIN
    INSERT OR IGNORE INTO tally (mesh_id) VALUES (new.mesh_id);
    UPDATE tally SET
        pending = pending + (new.status = 'pending'),
        inflight = inflight + (new.status = 'inflight'),
        done = done + (new.status = 'done'),
        dead = dead + (new.status = 'dead'),
        aborted = aborted + (new.status = 'aborted'),
        bytes = bytes + octet_length(new.payload) + octet_length(new.sealed) + octet_length(new.meta)
    WHERE mesh_id = new.mesh_id;
END;
-- A row never goes to another mesh. Two triggers: one that names the message has it read.
CREATE TRIGGER tally_status AFTER UPDATE OF status ON outbox WHEN old.status <> new.status BEGIN
    UPDATE tally SET
        pending = pending + (new.status = 'pending') - (old.status = 'pending'),
        inflight = inflight + (new.status = 'inflight') - (old.status = 'inflight'),
        done = done + (new.status = 'done') - (old.status = 'done'),
        dead = dead + (new.status = 'dead') - (old.status = 'dead'),
        aborted = aborted + (new.status = 'aborted') - (old.status = 'aborted')
    WHERE mesh_id = new.mesh_id;
END;
CREATE TRIGGER tally_bytes AFTER UPDATE OF payload, sealed, meta ON outbox BEGIN
    UPDATE tally SET bytes = bytes
        + octet_length(new.payload) + octet_length(new.sealed) + octet_length(new.meta)
        - octet_length(old.payload) - octet_length(old.sealed) - octet_length(old.meta)
    WHERE mesh_id = new.mesh_id;
END;
CREATE TRIGGER tally_delete AFTER DELETE ON outbox BEGIN
    UPDATE tally SET
        pending = pending - (old.status = 'pending'),
        inflight = inflight - (old.status = 'inflight'),
        done = done - (old.status = 'done'),
        dead = dead - (old.status = 'dead'),
        aborted = aborted - (old.status = 'aborted'),
        bytes = bytes - octet_length(old.payload) - octet_length(old.sealed) - octet_length(old.meta)
    WHERE mesh_id = old.mesh_id;
END;
