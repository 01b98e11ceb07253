-- Who takes part, who works on what, and who has reserved which paths. Times are text that sorts, as everywhere.

CREATE TABLE agents (
    name TEXT PRIMARY KEY NOT NULL,
    program TEXT,
    model TEXT,
    session TEXT,
    state TEXT NOT NULL CHECK (state IN ('active', 'gone')),
    registered_at TEXT NOT NULL,
    last_seen_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_agents_session ON agents(session) WHERE session IS NOT NULL;
CREATE INDEX idx_agents_active ON agents(last_seen_at) WHERE state = 'active';

-- A topic has at most one task, so either id leads to the other. The generation grows with every claim; a claimed task
-- has an end, and whether it has come is a matter of the time at which one asks.
CREATE TABLE tasks (
    id TEXT PRIMARY KEY NOT NULL,
    topic_id TEXT NOT NULL UNIQUE,
    channel_id TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT,
    status TEXT NOT NULL CHECK (status IN ('open', 'claimed', 'completed', 'cancelled')),
    created_by TEXT NOT NULL,
    holder TEXT,
    generation INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
    lease_expires_at TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    claimed_at TEXT,
    completed_at TEXT,
    result TEXT,
    FOREIGN KEY (topic_id) REFERENCES topics(id) ON DELETE RESTRICT,
    FOREIGN KEY (channel_id) REFERENCES channels(id) ON DELETE RESTRICT,
    CHECK ((status = 'claimed') = (lease_expires_at IS NOT NULL)),
    CHECK (status <> 'claimed' OR holder IS NOT NULL),
    CHECK (status <> 'open' OR holder IS NULL)
) STRICT;

CREATE INDEX idx_tasks_status ON tasks(status, id);
CREATE INDEX idx_tasks_channel ON tasks(channel_id, status, id);
CREATE INDEX idx_tasks_ending ON tasks(lease_expires_at) WHERE status = 'claimed';
CREATE INDEX idx_tasks_holder ON tasks(holder) WHERE status = 'claimed';

-- One sequence of generations for all leases, so that any two can be compared. Patterns are a JSON array.
CREATE TABLE leases (
    id TEXT PRIMARY KEY NOT NULL,
    holder TEXT NOT NULL,
    patterns TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('shared', 'exclusive')),
    reason TEXT,
    generation INTEGER NOT NULL UNIQUE,
    acquired_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    released_at TEXT,
    status TEXT NOT NULL CHECK (status IN ('active', 'released', 'expired')),
    CHECK ((status = 'released') = (released_at IS NOT NULL))
) STRICT;

CREATE INDEX idx_leases_active ON leases(expires_at) WHERE status = 'active';
CREATE INDEX idx_leases_holder ON leases(holder) WHERE status = 'active';
