-- How many rows of each mesh are in each state, kept with every change, so that asking costs the same however many there are.
CREATE TABLE outbox_count (
    mesh_id TEXT NOT NULL,
    status TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, status)
) STRICT, WITHOUT ROWID;
INSERT INTO outbox_count (mesh_id, status, number) SELECT mesh_id, status, count(*) FROM outbox GROUP BY mesh_id, status;

-- Not one statement with ON CONFLICT DO UPDATE: an INSERT OR IGNORE that fires the trigger would make it ignore, too.
CREATE TRIGGER outbox_count_insert AFTER INSERT ON outbox BEGIN
    INSERT OR IGNORE INTO outbox_count (mesh_id, status, number) VALUES (new.mesh_id, new.status, 0);
    UPDATE outbox_count SET number = number + 1 WHERE mesh_id = new.mesh_id AND status = new.status;
END;
CREATE TRIGGER outbox_count_update AFTER UPDATE OF mesh_id, status ON outbox
WHEN old.status <> new.status OR old.mesh_id <> new.mesh_id BEGIN
    UPDATE outbox_count SET number = number - 1 WHERE mesh_id = old.mesh_id AND status = old.status;
    INSERT OR IGNORE INTO outbox_count (mesh_id, status, number) VALUES (new.mesh_id, new.status, 0);
    UPDATE outbox_count SET number = number + 1 WHERE mesh_id = new.mesh_id AND status = new.status;
END;
CREATE TRIGGER outbox_count_delete AFTER DELETE ON outbox BEGIN
    UPDATE outbox_count SET number = number - 1 WHERE mesh_id = old.mesh_id AND status = old.status;
END;
