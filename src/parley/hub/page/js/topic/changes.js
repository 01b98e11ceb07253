/** What an event does to a message: `{id, version, changes}`, or null for events that change none. */

const TOMBSTONE = "[deleted]";

export function changeOf(event) {
  const { data, ts } = event;
  if (event.name === "message.edited") {
    return { id: data.message_id, version: data.version, changes: { content_raw: data.new_content, edited_at: ts } };
  }
  if (event.name === "message.deleted") {
    const changes = { content_raw: TOMBSTONE, edited_at: ts, deleted_at: ts, deleted_by: data.deleted_by };
    return { id: data.message_id, version: data.version, changes };
  }
  if (event.name === "message.moved_topic") {
    return { id: data.message_id, version: data.version, changes: { topic_id: data.new_topic_id } };
  }
  return null;
}

/** A row brought up to the events that came while it was on its way. */
export function caughtUp(message, events) {
  let current = message;
  for (const event of events) {
    const change = changeOf(event);
    if (change === null || change.id !== current.id || change.version <= current.version) continue;
    current = { ...current, ...change.changes, version: change.version };
  }
  return current;
}
