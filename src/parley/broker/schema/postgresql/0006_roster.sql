-- The one order of what a mesh replicates. Numbers are taken under the lock of the mesh's row and held to the commit; seq goes on counting
-- when a restored backup begins another epoch. The roster's entries have n, a cursor of their own, as well, and are never removed.
CREATE TABLE mesh_log (
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    epoch BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT,
    author TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    entry BYTEA NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    appended_ms BIGINT NOT NULL,
    PRIMARY KEY (mesh_id, epoch, seq)
);
CREATE UNIQUE INDEX roster_order ON mesh_log (mesh_id, n);
CREATE INDEX log_by_author ON mesh_log (mesh_id, author, appended_ms);

-- How far each mesh's log goes, and the head that the broker has signed. While restoring is 1 an owner has yet to say what was lost;
-- told is the newest head of the lost part that a member has come with.
CREATE TABLE roster (
    mesh_id TEXT COLLATE "C" PRIMARY KEY NOT NULL REFERENCES mesh (mesh_id),
    fingerprint TEXT COLLATE "C" NOT NULL UNIQUE,
    epoch BIGINT NOT NULL,
    epoch_follows BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    signature TEXT COLLATE "C" NOT NULL,
    restoring BIGINT NOT NULL CHECK (restoring IN (0, 1)),
    told TEXT COLLATE "C"
);

-- What a roster's first entries add up to, so that a start need not go through all of them. It can be made anew from the log.
CREATE TABLE roster_snapshot (
    mesh_id TEXT COLLATE "C" PRIMARY KEY NOT NULL REFERENCES mesh (mesh_id),
    n BIGINT NOT NULL,
    state BYTEA NOT NULL
);

-- Who wants to append next, in the order of numbers: waiting, promised the place with this n, or having let that promise go by.
CREATE TABLE roster_turn (
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    author TEXT COLLATE "C" NOT NULL,
    rank BIGINT NOT NULL CHECK (rank IN (0, 1, 2)),
    number BIGINT NOT NULL,
    place BIGINT NOT NULL,
    standing TEXT COLLATE "C" NOT NULL CHECK (standing IN ('waiting', 'promised', 'unused')),
    until_ms BIGINT NOT NULL,
    PRIMARY KEY (mesh_id, author)
);
