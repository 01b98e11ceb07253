/** The head of a message that another one replies to: who said what, in one line, and a way there. */

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { senderName } from "../avatar.js";

const HEAD_CHARS_MAX = 140;

/** `quoted` is the message, null if there is none, undefined while it is read. */
export function quoteNode(id, quoted, goTo) {
  if (!quoted) {
    const text = quoted === null ? "A message that is no longer here" : "…";
    return h("p", { class: "quote quote-empty" }, icon("reply"), h("span", { class: "quote-text" }, text));
  }
  const text = quoted.deleted_at !== null ? "deleted message" : headOf(quoted.content_raw);
  return h(
    "button",
    {
      type: "button",
      class: "quote",
      "aria-label": `In reply to ${quoted.sender}: ${text}. Go there`,
      onClick: () => goTo(id),
    },
    icon("reply"),
    senderName(quoted.sender),
    h("span", { class: "quote-text" }, text),
  );
}

/** The beginning of a text on one line. */
export function headOf(text) {
  const line = text
    .slice(0, HEAD_CHARS_MAX * 4)
    .replace(/\s+/g, " ")
    .trim();
  const characters = [...line];
  return characters.length > HEAD_CHARS_MAX ? `${characters.slice(0, HEAD_CHARS_MAX).join("")}…` : line;
}
