-- What a member tells of itself, sealed for the members; and whether it wants to be listed among the peers.
CREATE TABLE profile (
    member_id TEXT PRIMARY KEY NOT NULL REFERENCES member (member_id),
    visible INTEGER NOT NULL CHECK (visible IN (0, 1)),
    sealed TEXT,
    key_epoch INTEGER,
    changed_ms INTEGER NOT NULL,
    CHECK ((sealed IS NULL) = (key_epoch IS NULL))
) STRICT, WITHOUT ROWID;
