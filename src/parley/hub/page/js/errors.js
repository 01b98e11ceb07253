/** What a person can do about each refusal, in the page's words. The codes are those of the protocol. */

import { h } from "./dom.js";

const HINTS = {
  AGENT_NAME_TAKEN: "Choose another name.",
  CONNECTION_FAILED: "Check that the hub is running with `parley status`.",
  CROSS_CHANNEL_MOVE: "Choose a topic of the same channel.",
  CURSOR_EXPIRED: "Reload the page to start from what is kept.",
  DATABASE_CORRUPT: "Run `parley doctor --repair` in the workspace; if it cannot repair, restore a backup.",
  IDEMPOTENCY_KEY_REUSED: "Copy your text, then write it as a new message.",
  INTERNAL_ERROR: "This is a fault of the hub. Its log tells more.",
  INVALID_AUTH: "Run `parley ui` in the workspace to log in again.",
  INVALID_INPUT: "Correct the value and try again.",
  LEASE_CONFLICT: "Somebody else has leased it; wait, or ask the holder.",
  LEASE_LOST: "The lease has ended meanwhile.",
  MESSAGE_ARCHIVED: "The message was moved to an archive of the workspace.",
  MESSAGE_DELETED: "Post a new message instead.",
  MISSING_AUTH: "Run `parley ui` in the workspace to log in.",
  NOT_FOUND: "It may have been archived, or the link is not from this workspace.",
  ORIGIN_FORBIDDEN: "Open the page at the address that `parley ui` prints.",
  PAYLOAD_TOO_LARGE: "Make it shorter, or raise the limit in parley.toml.",
  RATE_LIMITED: "Too many requests at once; it passes by itself.",
  SERVICE_UNAVAILABLE: "Nothing was written. `parley doctor` tells the reason.",
  SHUTTING_DOWN: "The hub is stopping; try again when it is back.",
  TASK_CLOSED: "It is completed or cancelled already.",
  TASK_HELD: "Somebody else has it; take it over if it has to be.",
  TASK_NOT_HELD: "The claim has ended, or somebody has taken the task over.",
  VERSION_CONFLICT: "Someone changed the message meanwhile.",
};

export function hintFor(code) {
  return HINTS[code] ?? "";
}

/**
 * A refusal for people: what happened, when to try again if the hub said so, and what to do. Commands, which hints have
 * between backticks, are set as code.
 */
export function errorNodes(error) {
  const pieces = (error.hint ?? "").split("`");
  const hint = pieces.map((piece, index) => (index % 2 === 1 ? h("code", null, piece) : piece));
  const when = error.retryAfterSeconds ? `Try again in ${error.retryAfterSeconds} s. ` : "";
  return [sentence(error.message ?? String(error)), " ", when, ...hint];
}

/** The same as a box that is announced. */
export function errorNotice(error) {
  return h("p", { class: "notice notice-danger", role: "alert" }, errorNodes(error));
}

export function sentence(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
