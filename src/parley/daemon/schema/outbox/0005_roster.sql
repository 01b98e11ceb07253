-- The member's own copy of the rosters of its meshes. An entry is the bytes that its author signed; what they add up to
-- follows from them, and the snapshot only keeps a start from judging all of them again.
CREATE TABLE roster_entry (
    mesh_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    hash TEXT NOT NULL,
    entry BLOB NOT NULL,
    PRIMARY KEY (mesh_id, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE roster_snapshot (
    mesh_id TEXT PRIMARY KEY NOT NULL,
    n INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What is known of the end of a roster besides its entries, as JSON.
CREATE TABLE roster_marks (
    mesh_id TEXT PRIMARY KEY NOT NULL,
    marks TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Invites that the member has made, without their secrets: to take one back, all of what was signed is needed.
CREATE TABLE roster_invite (
    mesh_id TEXT NOT NULL,
    id TEXT NOT NULL,
    invite TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, id)
) STRICT, WITHOUT ROWID;

-- Whose safety number was compared, and for which key: another key of that member's is told of.
CREATE TABLE roster_verified (
    mesh_id TEXT NOT NULL,
    member_id TEXT NOT NULL,
    pubkey TEXT NOT NULL,
    verified_at INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, member_id)
) STRICT, WITHOUT ROWID;
