/**
 * One message as an `<article>`.
 *
 * The node lives as long as its message is on the page. An update replaces only what changed, so that the focus on a
 * button and a selection in another part stay; an editor in place of the text is left alone.
 */

import { avatar, senderName } from "../avatar.js";
import { clockTime, exactTime, narrowTime } from "../time.js";
import { foldable } from "./foldable.js";
import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { quoteNode } from "./quote_node.js";
import { render } from "../markdown.js";
import { topicHref } from "../router.js";

const NONE = [];

/**
 * `context` has `actions` (`reply`, `menu`, `history`, `goTo`, each called with a message or an id), `enrichmentsOf`,
 * `quoteOf` and `editorOf`.
 */
export function createMessageNode(row, context) {
  const { message } = row;
  const parts = {
    gutter: h("div", { class: "message-gutter" }),
    quote: h("div"),
    head: h("header", { class: "message-head" }),
    body: h("div", { class: "message-body" }),
    editor: h("div"),
    actions: actionsNode(message.id, context.actions),
  };
  const node = h(
    "article",
    { class: "message", tabindex: "-1", dataset: { messageId: message.id } },
    parts.gutter,
    h("div", { class: "message-main" }, parts.quote, parts.head, parts.body, parts.editor),
    parts.actions,
  );
  node.parts = parts;
  node.drawn = {};
  updateMessageNode(node, row, context);
  return node;
}

export function updateMessageNode(node, { message, isGrouped }, context) {
  const { parts, drawn } = node;
  const isOther = drawn.message !== message;
  // What is being read again stays as it was drawn until the answer is here.
  const enrichments = context.enrichmentsOf(message) ?? (isOther ? NONE : drawn.enrichments);
  const quoted = message.reply_to === null ? null : known(context.quoteOf(message.reply_to), drawn.quoted);
  const editor = context.editorOf(message.id);
  if (isOther || drawn.isGrouped !== isGrouped) drawFrame(node, message, isGrouped, context);
  if (isOther || areOther(drawn.enrichments, enrichments)) drawBody(parts.body, message, enrichments, context);
  if (isOther || drawn.quoted !== quoted) drawQuote(parts.quote, message, quoted, context);
  if (drawn.editor !== editor) replace(parts.editor, editor?.element);
  parts.body.hidden = editor !== undefined;
  node.drawn = { message, isGrouped, quoted, editor, enrichments };
}

function known(now, before) {
  return now === undefined ? before : now;
}

/** Two empty lists are the same: drawing the text again would take away the reader's selection. */
function areOther(before, now) {
  return before !== now && before.length + now.length > 0;
}

function drawFrame(node, message, isGrouped, context) {
  const { parts } = node;
  const isDeleted = message.deleted_at !== null;
  node.dataset.version = String(message.version);
  node.classList.toggle("is-grouped", isGrouped);
  node.classList.toggle("is-deleted", isDeleted);
  node.setAttribute("aria-label", `${message.sender}, ${exactTime(message.created_at)}${isDeleted ? ", deleted" : ""}`);
  replace(parts.gutter, isGrouped ? timeLink(message, narrowTime) : avatar(message.sender));
  replace(
    parts.head,
    isGrouped ? null : [senderName(message.sender), timeLink(message, clockTime)],
    mark(message, context),
  );
  parts.head.hidden = parts.head.childElementCount === 0;
}

function drawBody(body, message, enrichments, context) {
  if (message.deleted_at !== null) {
    const who = message.deleted_by ?? "someone";
    replace(
      body,
      h("p", { class: "tombstone" }, "Deleted by ", h("strong", null, who), ` at ${clockTime(message.deleted_at)}`),
    );
    return;
  }
  replace(
    body,
    foldable(message.content_raw, render(message.content_raw, { enrichments, onMessageLink: context.actions.goTo })),
  );
}

function drawQuote(place, message, quoted, context) {
  replace(place, message.reply_to === null ? null : quoteNode(message.reply_to, quoted, context.actions.goTo));
}

function timeLink(message, format) {
  return h(
    "a",
    { class: "message-time", href: topicHref(message.topic_id, message.id), title: exactTime(message.created_at) },
    h("time", { datetime: message.created_at }, format(message.created_at)),
  );
}

/**
 * "edited" or "moved", which opens the history. A version above 1 that is no edit and no deletion can only be a move.
 */
function mark(message, context) {
  if (message.deleted_at !== null || message.version === 1) return null;
  const text = message.edited_at === null ? "moved" : "edited";
  const title = message.edited_at === null ? "Moved here from another topic" : `Edited ${exactTime(message.edited_at)}`;
  const label = `${text}, show the history`;
  return h(
    "button",
    {
      type: "button",
      class: "message-mark",
      title,
      "aria-label": label,
      onClick: () => context.actions.history(message.id),
    },
    text,
  );
}

function actionsNode(id, actions) {
  const more = h(
    "button",
    {
      type: "button",
      class: "icon-button",
      "aria-label": "More actions",
      title: "More actions",
      "aria-haspopup": "menu",
      "aria-expanded": "false",
    },
    icon("more"),
  );
  more.addEventListener("click", () => actions.menu(id, more));
  return h(
    "div",
    { class: "message-actions" },
    h(
      "button",
      { type: "button", class: "icon-button", "aria-label": "Reply", title: "Reply", onClick: () => actions.reply(id) },
      icon("reply"),
    ),
    more,
  );
}
