-- The one order of what a mesh replicates. Numbers are taken under the lock of the mesh's row and held to the commit; seq goes on counting
-- when a restored backup begins another epoch. The roster's entries have n, a cursor of their own, as well, and are never removed.
CREATE TABLE mesh_log (
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    n INTEGER,
    author TEXT NOT NULL,
    kind TEXT NOT NULL,
    entry BLOB NOT NULL,
    hash TEXT NOT NULL,
    appended_ms INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, epoch, seq)
) STRICT;
CREATE UNIQUE INDEX roster_order ON mesh_log (mesh_id, n);
CREATE INDEX log_by_author ON mesh_log (mesh_id, author, appended_ms);

-- How far each mesh's log goes, and the head that the broker has signed. While restoring is 1 an owner has yet to say what was lost;
-- told is the newest head of the lost part that a member has come with.
CREATE TABLE roster (
    mesh_id TEXT PRIMARY KEY NOT NULL REFERENCES mesh (mesh_id),
    fingerprint TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    epoch_follows INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    n INTEGER NOT NULL,
    hash TEXT NOT NULL,
    signature TEXT NOT NULL,
    restoring INTEGER NOT NULL CHECK (restoring IN (0, 1)),
    told TEXT
) STRICT, WITHOUT ROWID;

-- What a roster's first entries add up to, so that a start need not go through all of them. It can be made anew from the log.
CREATE TABLE roster_snapshot (
    mesh_id TEXT PRIMARY KEY NOT NULL REFERENCES mesh (mesh_id),
    n INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT;

-- Who wants to append next, in the order of numbers: waiting, promised the place with this n, or having let that promise go by.
CREATE TABLE roster_turn (
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    author TEXT NOT NULL,
    rank INTEGER NOT NULL CHECK (rank IN (0, 1, 2)),
    number INTEGER NOT NULL,
    place INTEGER NOT NULL,
    standing TEXT NOT NULL CHECK (standing IN ('waiting', 'promised', 'unused')),
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, author)
) STRICT, WITHOUT ROWID;
