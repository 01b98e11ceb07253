-- The broker's tables. The PostgreSQL schema beside this one has the same tables and columns; the rules are written once for both.
-- Times are milliseconds since 1970, truths are 0 and 1. Ids are unique in the whole database, so that none of one mesh can stand for
-- something of another.

CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE mesh (
    mesh_id TEXT PRIMARY KEY NOT NULL,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    key_epoch INTEGER NOT NULL DEFAULT 1,
    connection_policy TEXT NOT NULL DEFAULT 'prefer_newest'
        CHECK (connection_policy IN ('prefer_newest', 'prefer_oldest', 'allow_concurrent')),
    stored_bytes INTEGER NOT NULL DEFAULT 0,
    bytes_max INTEGER NOT NULL,
    members_max INTEGER NOT NULL
) STRICT;

CREATE TABLE member (
    member_id TEXT PRIMARY KEY NOT NULL,
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    pubkey TEXT NOT NULL,
    display_name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    state TEXT NOT NULL CHECK (state IN ('active', 'left', 'revoked', 'banned')),
    joined_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    invite TEXT,
    join_proof TEXT NOT NULL DEFAULT '',
    host_fingerprint TEXT NOT NULL DEFAULT '',
    seen_ms INTEGER
) STRICT;
CREATE INDEX member_of_mesh ON member (mesh_id, state);

-- Every key that a member ever had. What was sent to an old key still reaches its owner, and nobody joins again with it.
CREATE TABLE member_key (
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    pubkey TEXT NOT NULL,
    member_id TEXT NOT NULL REFERENCES member (member_id),
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, pubkey)
) STRICT, WITHOUT ROWID;

CREATE TABLE invite (
    invite_id TEXT PRIMARY KEY NOT NULL,
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    pubkey TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    created_by TEXT,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    uses_max INTEGER NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0,
    revoked_ms INTEGER,
    CHECK (uses <= uses_max)
) STRICT;

CREATE TABLE topic (
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    name TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE topic_subscription (
    mesh_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    member_id TEXT NOT NULL REFERENCES member (member_id),
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, topic, member_id),
    FOREIGN KEY (mesh_id, topic) REFERENCES topic (mesh_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_of_member ON topic_subscription (member_id);

CREATE TABLE group_member (
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    group_name TEXT NOT NULL,
    member_id TEXT NOT NULL REFERENCES member (member_id),
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (mesh_id, group_name, member_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX groups_of_member ON group_member (member_id);

-- What a member takes from a peer: a list of capabilities, in order, with commas. An empty one is a block; without a row all is allowed.
CREATE TABLE peer_grant (
    member_id TEXT NOT NULL REFERENCES member (member_id),
    peer_id TEXT NOT NULL REFERENCES member (member_id),
    capabilities TEXT NOT NULL,
    changed_ms INTEGER NOT NULL,
    PRIMARY KEY (member_id, peer_id)
) STRICT, WITHOUT ROWID;

-- The history is never numbered anew: AUTOINCREMENT keeps the number of a pruned row from coming back.
CREATE TABLE message_history (
    history_id INTEGER PRIMARY KEY AUTOINCREMENT,
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    broker_message_id TEXT NOT NULL UNIQUE,
    client_message_id TEXT NOT NULL,
    sender_id TEXT NOT NULL REFERENCES member (member_id),
    sender_key TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('topic', 'dm', 'queue')),
    ref TEXT NOT NULL,
    priority TEXT NOT NULL CHECK (priority IN ('now', 'next', 'low')),
    reply_to TEXT,
    meta TEXT NOT NULL,
    key_epoch INTEGER,
    body_bytes INTEGER NOT NULL,
    recipients INTEGER NOT NULL,
    accepted_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX history_of_mesh ON message_history (mesh_id, history_id);
CREATE INDEX history_by_age ON message_history (accepted_ms);

CREATE TABLE message (
    broker_message_id TEXT PRIMARY KEY NOT NULL REFERENCES message_history (broker_message_id),
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    body BLOB NOT NULL
) STRICT;

-- A row is here if and only if its message was accepted. history_available is 0 once the message itself was pruned.
CREATE TABLE client_message_dedupe (
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    sender_id TEXT NOT NULL REFERENCES member (member_id),
    client_message_id TEXT NOT NULL,
    broker_message_id TEXT NOT NULL UNIQUE,
    history_id INTEGER NOT NULL,
    request_fingerprint BLOB NOT NULL CHECK (length(request_fingerprint) = 32),
    destination_kind TEXT NOT NULL,
    destination_ref TEXT NOT NULL,
    first_seen_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    history_available INTEGER NOT NULL DEFAULT 1 CHECK (history_available IN (0, 1)),
    PRIMARY KEY (mesh_id, sender_id, client_message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX dedupe_by_expiry ON client_message_dedupe (expires_ms) WHERE expires_ms IS NOT NULL;

CREATE TABLE delivery_queue (
    delivery_id INTEGER PRIMARY KEY AUTOINCREMENT,
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    broker_message_id TEXT NOT NULL REFERENCES message_history (broker_message_id),
    recipient_id TEXT NOT NULL REFERENCES member (member_id),
    priority_rank INTEGER NOT NULL CHECK (priority_rank IN (0, 1, 2)),
    mentioned INTEGER NOT NULL CHECK (mentioned IN (0, 1)),
    state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'delivered', 'dead')),
    status TEXT CHECK (status IN ('stored', 'undecryptable')),
    reason TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    leased_by TEXT,
    lease_until_ms INTEGER,
    queued_ms INTEGER NOT NULL,
    settled_ms INTEGER,
    UNIQUE (broker_message_id, recipient_id),
    CHECK ((state = 'leased') = (leased_by IS NOT NULL)),
    CHECK ((state = 'leased') = (lease_until_ms IS NOT NULL)),
    CHECK ((state = 'delivered') = (status IS NOT NULL)),
    CHECK ((state = 'dead') = (reason IS NOT NULL))
) STRICT;
CREATE INDEX delivery_due ON delivery_queue (recipient_id, priority_rank, delivery_id) WHERE state IN ('queued', 'leased');
CREATE INDEX delivery_leases ON delivery_queue (leased_by) WHERE state = 'leased';

CREATE TABLE mention_index (
    mentioned_id TEXT NOT NULL REFERENCES member (member_id),
    broker_message_id TEXT NOT NULL REFERENCES message_history (broker_message_id),
    PRIMARY KEY (mentioned_id, broker_message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX mentions_of_message ON mention_index (broker_message_id);

CREATE TABLE presence (
    member_id TEXT PRIMARY KEY NOT NULL REFERENCES member (member_id),
    status TEXT NOT NULL CHECK (status IN ('idle', 'working', 'dnd')),
    summary TEXT NOT NULL DEFAULT '',
    changed_ms INTEGER NOT NULL,
    until_ms INTEGER
) STRICT, WITHOUT ROWID;

-- Who is connected, and to which of several brokers that share this database.
CREATE TABLE connection (
    connection_id TEXT PRIMARY KEY NOT NULL,
    broker_instance TEXT NOT NULL,
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    member_id TEXT NOT NULL REFERENCES member (member_id),
    instance_id TEXT NOT NULL,
    connected_ms INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX connections_of_member ON connection (member_id);

CREATE TABLE rate_budget (
    member_id TEXT NOT NULL,
    window_ms INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (member_id, window_ms)
) STRICT, WITHOUT ROWID;

-- A message that was counted and then refused; its retry in the same window costs nothing.
CREATE TABLE rate_key (
    member_id TEXT NOT NULL,
    client_message_id TEXT NOT NULL,
    window_ms INTEGER NOT NULL,
    PRIMARY KEY (member_id, client_message_id)
) STRICT, WITHOUT ROWID;

-- One chain of hashes for each mesh: each row's hash covers the one before it.
CREATE TABLE audit (
    mesh_id TEXT NOT NULL REFERENCES mesh (mesh_id),
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    event TEXT NOT NULL,
    actor TEXT NOT NULL,
    payload TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (mesh_id, number)
) STRICT, WITHOUT ROWID;

-- A mesh key that one member sealed to another. The broker cannot open it.
CREATE TABLE key_gift (
    member_id TEXT NOT NULL REFERENCES member (member_id),
    key_epoch INTEGER NOT NULL,
    giver_id TEXT NOT NULL REFERENCES member (member_id),
    giver_key TEXT NOT NULL,
    sealed TEXT NOT NULL,
    given_ms INTEGER NOT NULL,
    PRIMARY KEY (member_id, key_epoch, giver_id)
) STRICT, WITHOUT ROWID;
