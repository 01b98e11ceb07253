-- The broker's tables, as in the SQLite schema beside this one, with PostgreSQL's types. Text is compared byte by byte, as SQLite does.

CREATE TABLE meta (
    key TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    value TEXT COLLATE "C" NOT NULL
);

CREATE TABLE mesh (
    mesh_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    slug TEXT COLLATE "C" NOT NULL UNIQUE,
    name TEXT COLLATE "C" NOT NULL,
    created_ms BIGINT NOT NULL,
    key_epoch BIGINT NOT NULL DEFAULT 1,
    connection_policy TEXT COLLATE "C" NOT NULL DEFAULT 'prefer_newest'
        CHECK (connection_policy IN ('prefer_newest', 'prefer_oldest', 'allow_concurrent')),
    stored_bytes BIGINT NOT NULL DEFAULT 0,
    bytes_max BIGINT NOT NULL,
    members_max BIGINT NOT NULL
);

CREATE TABLE member (
    member_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    pubkey TEXT COLLATE "C" NOT NULL,
    display_name TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('active', 'left', 'revoked', 'banned')),
    joined_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    invite TEXT COLLATE "C",
    join_proof TEXT COLLATE "C" NOT NULL DEFAULT '',
    host_fingerprint TEXT COLLATE "C" NOT NULL DEFAULT '',
    seen_ms BIGINT
);
CREATE INDEX member_of_mesh ON member (mesh_id, state);

-- Every key that a member ever had. What was sent to an old key still reaches its owner, and nobody joins again with it.
CREATE TABLE member_key (
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    pubkey TEXT COLLATE "C" NOT NULL,
    member_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    since_ms BIGINT NOT NULL,
    PRIMARY KEY (mesh_id, pubkey)
);

CREATE TABLE invite (
    invite_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    pubkey TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    created_by TEXT COLLATE "C",
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    uses_max BIGINT NOT NULL,
    uses BIGINT NOT NULL DEFAULT 0,
    revoked_ms BIGINT,
    CHECK (uses <= uses_max)
);

CREATE TABLE topic (
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    name TEXT COLLATE "C" NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (mesh_id, name)
);

CREATE TABLE topic_subscription (
    mesh_id TEXT COLLATE "C" NOT NULL,
    topic TEXT COLLATE "C" NOT NULL,
    member_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    since_ms BIGINT NOT NULL,
    PRIMARY KEY (mesh_id, topic, member_id),
    FOREIGN KEY (mesh_id, topic) REFERENCES topic (mesh_id, name)
);
CREATE INDEX subscriptions_of_member ON topic_subscription (member_id);

CREATE TABLE group_member (
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    group_name TEXT COLLATE "C" NOT NULL,
    member_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    since_ms BIGINT NOT NULL,
    PRIMARY KEY (mesh_id, group_name, member_id)
);
CREATE INDEX groups_of_member ON group_member (member_id);

-- What a member takes from a peer: a list of capabilities, in order, with commas. An empty one is a block; without a row all is allowed.
CREATE TABLE peer_grant (
    member_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    peer_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    capabilities TEXT COLLATE "C" NOT NULL,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (member_id, peer_id)
);

-- Identities are taken under the lock of the mesh's row, so that within a mesh they follow the order of the commits.
CREATE TABLE message_history (
    history_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    broker_message_id TEXT COLLATE "C" NOT NULL UNIQUE,
    client_message_id TEXT COLLATE "C" NOT NULL,
    sender_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    sender_key TEXT COLLATE "C" NOT NULL,
    sender_name TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('topic', 'dm', 'queue')),
    ref TEXT COLLATE "C" NOT NULL,
    priority TEXT COLLATE "C" NOT NULL CHECK (priority IN ('now', 'next', 'low')),
    reply_to TEXT COLLATE "C",
    meta TEXT COLLATE "C" NOT NULL,
    key_epoch BIGINT,
    body_bytes BIGINT NOT NULL,
    recipients BIGINT NOT NULL,
    accepted_ms BIGINT NOT NULL
);
CREATE INDEX history_of_mesh ON message_history (mesh_id, history_id);
CREATE INDEX history_by_age ON message_history (accepted_ms);

CREATE TABLE message (
    broker_message_id TEXT COLLATE "C" PRIMARY KEY NOT NULL REFERENCES message_history (broker_message_id),
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    body BYTEA NOT NULL
);

-- A row is here if and only if its message was accepted. history_available is 0 once the message itself was pruned.
CREATE TABLE client_message_dedupe (
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    sender_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    client_message_id TEXT COLLATE "C" NOT NULL,
    broker_message_id TEXT COLLATE "C" NOT NULL UNIQUE,
    history_id BIGINT NOT NULL,
    request_fingerprint BYTEA NOT NULL CHECK (octet_length(request_fingerprint) = 32),
    destination_kind TEXT COLLATE "C" NOT NULL,
    destination_ref TEXT COLLATE "C" NOT NULL,
    first_seen_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    history_available BIGINT NOT NULL DEFAULT 1 CHECK (history_available IN (0, 1)),
    PRIMARY KEY (mesh_id, sender_id, client_message_id)
);
CREATE INDEX dedupe_by_expiry ON client_message_dedupe (expires_ms) WHERE expires_ms IS NOT NULL;

CREATE TABLE delivery_queue (
    delivery_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    broker_message_id TEXT COLLATE "C" NOT NULL REFERENCES message_history (broker_message_id),
    recipient_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    priority_rank BIGINT NOT NULL CHECK (priority_rank IN (0, 1, 2)),
    mentioned BIGINT NOT NULL CHECK (mentioned IN (0, 1)),
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('queued', 'leased', 'delivered', 'dead')),
    status TEXT COLLATE "C" CHECK (status IN ('stored', 'undecryptable')),
    reason TEXT COLLATE "C",
    attempts BIGINT NOT NULL DEFAULT 0,
    leased_by TEXT COLLATE "C",
    lease_until_ms BIGINT,
    queued_ms BIGINT NOT NULL,
    settled_ms BIGINT,
    UNIQUE (broker_message_id, recipient_id),
    CHECK ((state = 'leased') = (leased_by IS NOT NULL)),
    CHECK ((state = 'leased') = (lease_until_ms IS NOT NULL)),
    CHECK ((state = 'delivered') = (status IS NOT NULL)),
    CHECK ((state = 'dead') = (reason IS NOT NULL))
);
CREATE INDEX delivery_due ON delivery_queue (recipient_id, priority_rank, delivery_id) WHERE state IN ('queued', 'leased');
CREATE INDEX delivery_leases ON delivery_queue (leased_by) WHERE state = 'leased';

CREATE TABLE mention_index (
    mentioned_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    broker_message_id TEXT COLLATE "C" NOT NULL REFERENCES message_history (broker_message_id),
    PRIMARY KEY (mentioned_id, broker_message_id)
);
CREATE INDEX mentions_of_message ON mention_index (broker_message_id);

CREATE TABLE presence (
    member_id TEXT COLLATE "C" PRIMARY KEY NOT NULL REFERENCES member (member_id),
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('idle', 'working', 'dnd')),
    summary TEXT COLLATE "C" NOT NULL DEFAULT '',
    changed_ms BIGINT NOT NULL,
    until_ms BIGINT
);

-- Who is connected, and to which of several brokers that share this database.
CREATE TABLE connection (
    connection_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    broker_instance TEXT COLLATE "C" NOT NULL,
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    member_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    instance_id TEXT COLLATE "C" NOT NULL,
    connected_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL
);
CREATE INDEX connections_of_member ON connection (member_id);

CREATE TABLE rate_budget (
    member_id TEXT COLLATE "C" NOT NULL,
    window_ms BIGINT NOT NULL,
    used BIGINT NOT NULL,
    PRIMARY KEY (member_id, window_ms)
);

-- A message that was counted and then refused; its retry in the same window costs nothing.
CREATE TABLE rate_key (
    member_id TEXT COLLATE "C" NOT NULL,
    client_message_id TEXT COLLATE "C" NOT NULL,
    window_ms BIGINT NOT NULL,
    PRIMARY KEY (member_id, client_message_id)
);

-- One chain of hashes for each mesh: each row's hash covers the one before it.
CREATE TABLE audit (
    mesh_id TEXT COLLATE "C" NOT NULL REFERENCES mesh (mesh_id),
    number BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    event TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    payload TEXT COLLATE "C" NOT NULL,
    previous TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (mesh_id, number)
);

-- A mesh key that one member sealed to another. The broker cannot open it.
CREATE TABLE key_gift (
    member_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    key_epoch BIGINT NOT NULL,
    giver_id TEXT COLLATE "C" NOT NULL REFERENCES member (member_id),
    giver_key TEXT COLLATE "C" NOT NULL,
    sealed TEXT COLLATE "C" NOT NULL,
    given_ms BIGINT NOT NULL,
    PRIMARY KEY (member_id, key_epoch, giver_id)
);
