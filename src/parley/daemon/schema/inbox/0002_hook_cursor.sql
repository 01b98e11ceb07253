-- Up to which event the hooks are done. It is beside the events, so that it goes where they go.
CREATE TABLE hook_cursor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    event_id INTEGER NOT NULL
) STRICT;
