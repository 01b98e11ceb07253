-- Who was met: the key that messages for it are sealed to, and the topics that it subscribed to, one a line.

CREATE TABLE known_peer (
    fingerprint BLOB PRIMARY KEY CHECK (length(fingerprint) = 32),
    agent_key BLOB NOT NULL CHECK (length(agent_key) = 32),
    role TEXT NOT NULL,
    topics TEXT NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX known_peer_seen_at ON known_peer (seen_at);
