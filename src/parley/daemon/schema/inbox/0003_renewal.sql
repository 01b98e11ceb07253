-- When this inbox took the place of one that was lost, if it did, and which meshes' brokers have been asked since for
-- what was in it.
CREATE TABLE renewal (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at INTEGER NOT NULL
) STRICT;
CREATE TABLE refilled (
    mesh_id TEXT PRIMARY KEY NOT NULL
) STRICT, WITHOUT ROWID;
