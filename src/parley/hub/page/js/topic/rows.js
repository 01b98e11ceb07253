/**
 * What stands in the timeline, top to bottom, as plain values: days, the line above what is new, messages, and notices
 * about messages that left. The timeline makes nodes of them by their keys.
 */

import { dayKey, dayName } from "../time.js";

const GROUP_SECONDS = 300;

/**
 * `newAfterId` is the last message seen before; the line stands where the new ones begin, if that is in the window, and
 * null draws none. `me` is the reader's own name.
 */
export function rowsOf(model, { newAfterId, me }) {
  const rows = [];
  let previous = null;
  const beginsHere = newAfterId !== null && (!model.hasOlder || (model.messages[0]?.id ?? "") <= newAfterId);
  let lineDrawn = !beginsHere;
  const departures = Map.groupBy(model.departures.values(), (one) => one.beforeId);
  for (const message of model.messages) {
    const day = dayKey(message.created_at);
    const isNewDay = previous === null || dayKey(previous.created_at) !== day;
    if (isNewDay) rows.push({ kind: "day", key: `day:${message.id}`, text: dayName(message.created_at) });
    const drawsLine = !lineDrawn && message.id > newAfterId && message.sender !== me;
    if (drawsLine) rows.push({ kind: "new", key: "new" });
    lineDrawn ||= drawsLine;
    const departed = departures.get(message.id) ?? [];
    rows.push(...departed.map((one) => ({ kind: "departure", ...one })));
    const isGrouped = !isNewDay && !drawsLine && departed.length === 0 && goesWith(previous, message);
    rows.push({ kind: "message", key: message.id, message, isGrouped });
    previous = message;
  }
  const atTheEnd = model.hasNewer ? [] : (departures.get(null) ?? []);
  rows.push(...atTheEnd.map((one) => ({ kind: "departure", ...one })));
  return rows;
}

/** Whether a message continues what its sender just said, and needs no name of its own. */
function goesWith(previous, message) {
  if (previous.sender !== message.sender || message.reply_to !== null) return false;
  if (previous.deleted_at !== null || message.deleted_at !== null) return false;
  return (Date.parse(message.created_at) - Date.parse(previous.created_at)) / 1000 < GROUP_SECONDS;
}
