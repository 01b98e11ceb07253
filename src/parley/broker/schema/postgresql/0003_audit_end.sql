-- Where a mesh's audit log ends, so that entries which are cut off at its end are missed, too.
ALTER TABLE mesh ADD COLUMN audit_number BIGINT NOT NULL DEFAULT 0;
ALTER TABLE mesh ADD COLUMN audit_hash TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE mesh SET
    audit_number = COALESCE((SELECT max(number) FROM audit WHERE audit.mesh_id = mesh.mesh_id), 0),
    audit_hash = COALESCE(
        (SELECT hash FROM audit WHERE audit.mesh_id = mesh.mesh_id ORDER BY number DESC LIMIT 1), ''
    );
