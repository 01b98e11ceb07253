-- Whether a member's keys end with its daemon: once it is gone for long, nobody can be this member again.
ALTER TABLE member ADD COLUMN ephemeral BIGINT NOT NULL DEFAULT 0 CHECK (ephemeral IN (0, 1));
CREATE INDEX ephemeral_members ON member (member_id) WHERE ephemeral = 1;
