-- Work that plugins do on messages after they were committed.

-- What changed a message after it was posted. New messages, the bulk of a log, are not in it and do not pay for it.
CREATE INDEX idx_events_message_changes ON events(entity_id, event_id)
    WHERE name IN ('message.edited', 'message.deleted', 'message.moved_topic');

-- An adopted Agentlip file may hold enrichments; whose they are, and whether a later edit or delete has overtaken them,
-- stands in its log.
ALTER TABLE enrichments ADD COLUMN plugin_name TEXT NOT NULL DEFAULT '';
ALTER TABLE enrichments ADD COLUMN outdated INTEGER NOT NULL DEFAULT 0 CHECK (outdated IN (0, 1));

UPDATE enrichments SET plugin_name = made.plugin_name, outdated = made.outdated
FROM (
    SELECT each.value AS id,
        coalesce(enriched.data_json->>'plugin_name', '') AS plugin_name,
        EXISTS (
            SELECT 1 FROM events AS later
            WHERE later.event_id > enriched.event_id AND later.entity_id = enriched.entity_id
                AND later.name IN ('message.edited', 'message.deleted', 'message.moved_topic')
                AND later.name <> 'message.moved_topic'
        ) AS outdated
    FROM events AS enriched, json_each(enriched.data_json, '$.enrichment_ids') AS each
    WHERE enriched.name = 'message.enriched'
) AS made
WHERE made.id = enrichments.id;

-- A row says that a message needs a run of a plugin. It is written in the transaction that changes the message, and goes
-- in the one that stores what the plugin found at the message's newest version. A failed job stays, with its reason.
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    plugin_name TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'failed')),
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before_ms INTEGER NOT NULL,
    queued_at TEXT NOT NULL,
    problem TEXT,
    FOREIGN KEY (message_id) REFERENCES messages(id) ON DELETE CASCADE,
    UNIQUE (message_id, plugin_name)
) STRICT;

CREATE INDEX idx_jobs_state ON jobs(plugin_name, state, not_before_ms, id, queued_at);
