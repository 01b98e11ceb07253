-- What a member tells of itself, sealed for the members; and whether it wants to be listed among the peers.
CREATE TABLE profile (
    member_id TEXT COLLATE "C" PRIMARY KEY NOT NULL REFERENCES member (member_id),
    visible INTEGER NOT NULL CHECK (visible IN (0, 1)),
    sealed TEXT COLLATE "C",
    key_epoch BIGINT,
    changed_ms BIGINT NOT NULL,
    CHECK ((sealed IS NULL) = (key_epoch IS NULL))
);
