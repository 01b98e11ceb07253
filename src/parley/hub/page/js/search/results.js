/**
 * What a search found: messages by topic, in the order in which the hub gave them, with their words marked.
 *
 * Each hit is a link to its message. Arrow keys, j and k, Home and End go from hit to hit.
 */

import { avatar, senderName } from "../avatar.js";
import { h } from "../dom.js";
import { excerptOf, highlighted } from "../highlight.js";
import { textNodes } from "../markdown/text.js";
import { channelHref, topicHref } from "../router.js";
import { exactTime, relativeTime } from "../time.js";

const STEPS = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };

/** A list of sections, one per topic. */
export function hitSections(app, messages, terms, options) {
  const byTopic = Map.groupBy(messages, (message) => message.topic_id);
  return [...byTopic].map(([topicId, hits]) => section(app, topicId, hits, terms, options));
}

/** Moves the focus from hit to hit; from the field, down to the first, and from the first up to the field. */
export function moveThroughHits(event, root, field) {
  const links = [...root.querySelectorAll("a.hit")];
  if (links.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const inField = event.target === field;
  if (inField && event.key !== "ArrowDown") return;
  const at = links.indexOf(document.activeElement?.closest("a.hit"));
  let next = null;
  if (event.key in STEPS) next = at + STEPS[event.key];
  else if (event.key === "Home") next = 0;
  else if (event.key === "End") next = links.length - 1;
  if (next === null || (at < 0 && !inField && STEPS[event.key] !== 1)) return;
  event.preventDefault();
  if (next < 0) field.focus();
  else links[Math.min(next, links.length - 1)].focus();
}

function section(app, topicId, hits, terms, options) {
  const topic = app.store.topics.get(topicId);
  const channel = app.store.channels.get(hits[0].channel_id);
  const heading = h(
    "h2",
    { class: "hits-head" },
    h("a", { class: "hits-topic", href: topicHref(topicId), dir: "auto" }, textNodes(topic?.title ?? "Topic")),
    channel
      ? h("a", { class: "hits-channel", href: channelHref(channel.id), dir: "auto" }, "#", textNodes(channel.name))
      : null,
  );
  const list = h(
    "ol",
    { class: "hits" },
    hits.map((message) => h("li", null, hit(message, terms, options))),
  );
  return h("section", { class: "hits-topic-section" }, heading, list);
}

function hit(message, terms, options) {
  const excerpt = excerptOf(message.content_raw, terms, options);
  return h(
    "a",
    { class: "hit", href: topicHref(message.topic_id, message.id), dataset: { messageId: message.id } },
    avatar(message.sender),
    h(
      "span",
      { class: "hit-line" },
      senderName(message.sender),
      h(
        "time",
        { class: "hit-time", datetime: message.created_at, title: exactTime(message.created_at) },
        relativeTime(message.created_at),
      ),
    ),
    h("span", { class: "hit-text", dir: "auto" }, marked(excerpt, terms, options)),
  );
}

function marked(excerpt, terms, options) {
  return highlighted(excerpt, terms, options).flatMap((node) => (typeof node === "string" ? textNodes(node) : node));
}
