/**
 * Tells a screen reader of new messages: the text of one or two, the number of more, and never without a pause between.
 */

import { headOf } from "./quote_node.js";
import { throttle } from "../throttle.js";

const PAUSE_MS = 4000;
const READ_OUT_MAX = 2;

/** The answer stops it. */
export function createArrivalAnnouncer(app, model) {
  let arrived = [];
  const tell = throttle(() => {
    const messages = arrived;
    arrived = [];
    if (messages.length === 0) return;
    if (messages.length <= READ_OUT_MAX)
      for (const { sender, content_raw: text } of messages) app.announce(`${sender}: ${headOf(text)}`);
    else app.announce(`${messages.length} new messages, the last from ${messages.at(-1).sender}`);
  }, PAUSE_MS);
  const off = model.onArrival((message) => {
    if (message.sender === app.prefs.get("name")) return;
    arrived.push(message);
    tell();
  });
  return () => {
    off();
    tell.cancel();
  };
}
