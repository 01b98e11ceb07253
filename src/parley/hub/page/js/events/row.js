/** One event as a row: when, what, on which entity, in a few words; opened, its whole payload. */

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { textNodes } from "../markdown/text.js";
import { channelHref, topicHref } from "../router.js";
import { exactTime, secondsTime } from "../time.js";
import { payloadTree } from "./tree.js";

const WORDS_CHARS_MAX = 160;

export function eventRow(app, event) {
  const body = h("div", { class: "event-body", id: `event-${event.event_id}`, hidden: true });
  const toggle = h(
    "button",
    { type: "button", class: "event-toggle", "aria-expanded": "false", "aria-controls": body.id },
    icon("chevron"),
    h("span", { class: "event-id" }, `${event.event_id}`),
    h("time", { class: "event-time", datetime: event.ts, title: exactTime(event.ts) }, secondsTime(event.ts)),
    h("span", { class: "event-name", dataset: { family: event.name.split(".")[0] } }, event.name),
    h("span", { class: "event-words", dir: "auto" }, textNodes(wordsOf(event))),
  );
  toggle.addEventListener("click", () => {
    body.hidden = !body.hidden;
    toggle.setAttribute("aria-expanded", String(!body.hidden));
    if (body.childNodes.length === 0) body.append(...details(app, event));
  });
  return h(
    "li",
    { class: "event", dataset: { eventId: event.event_id } },
    h("div", { class: "event-line" }, toggle, entityLink(event)),
    body,
  );
}

/** Where the event's entity is seen, or null where the page has no such place. */
function hrefOf({ entity, scope }) {
  const topic = scope.topic_id2 ?? scope.topic_id;
  if (entity.type === "message" && topic !== null) return topicHref(topic, entity.id);
  if (entity.type === "topic") return topicHref(entity.id);
  if (entity.type === "channel") return channelHref(entity.id);
  if (entity.type === "attachment" && topic !== null) return topicHref(topic);
  if (entity.type === "plugin") return "#/status";
  return null;
}

function entityLink(event) {
  const href = hrefOf(event);
  const { id, type } = event.entity;
  if (href === null) return h("span", { class: "event-entity" }, textNodes(id));
  return h("a", { class: "event-entity", href, "aria-label": `Go to ${type} ${id}` }, textNodes(id));
}

function details(app, event) {
  const { channels, topics } = app.store;
  const { channel_id: channel, topic_id: topic, topic_id2: other } = event.scope;
  const places = [
    channel && ["Channel", channels.get(channel)?.name ?? channel, channelHref(channel)],
    topic && [other ? "From topic" : "Topic", topics.get(topic)?.title ?? topic, topicHref(topic)],
    other && ["To topic", topics.get(other)?.title ?? other, topicHref(other)],
  ].filter(Boolean);
  const list = places.map(([name, text, href]) => [
    h("dt", null, name),
    h("dd", null, h("a", { href, dir: "auto" }, textNodes(text))),
  ]);
  return [
    h("dl", { class: "event-places" }, h("dt", null, "Time"), h("dd", null, event.ts), list),
    payloadTree(event.data),
  ];
}

/** What happened, in a few words of the payload. */
function wordsOf({ name, data }) {
  const texts = {
    "channel.created": () => data.channel.name,
    "topic.created": () => data.topic.title,
    "topic.renamed": () => `${data.old_title} → ${data.new_title}`,
    "message.created": () => `${data.message.sender}: ${data.message.content_raw}`,
    "message.edited": () => data.new_content,
    "message.deleted": () => `by ${data.deleted_by}`,
    "message.moved_topic": () => `${data.old_topic_id} → ${data.new_topic_id}`,
    "message.enriched": () => `${data.plugin_name ?? "plugin"}: ${data.enrichments?.length ?? 0} found`,
    "topic.attachment_added": () =>
      `${data.attachment.kind}: ${data.attachment.value_json?.url ?? data.attachment.dedupe_key}`,
    "task.created": () => data.task.title,
    "task.claimed": () => `${data.task.holder}: ${data.task.title}`,
    "task.released": () => data.task.title,
    "task.completed": () => `${data.task.holder}: ${data.task.title}`,
    "task.cancelled": () => data.task.title,
    "task.taken_over": () => `${data.task.holder} from ${data.previous_holder}: ${data.task.title}`,
    "task.expired": () => `${data.previous_holder}: ${data.task.title}`,
    "lease.acquired": () => `${data.lease.holder}: ${data.lease.patterns.join(", ")}`,
    "lease.released": () => `${data.lease.holder}: ${data.lease.patterns.join(", ")}`,
    "lease.expired": () => `${data.lease.holder}: ${data.lease.patterns.join(", ")}`,
    "agent.registered": () => data.agent.name,
    "agent.changed": () => data.agent.name,
    "agent.left": () => data.agent.name,
    "agent.swept": () => data.agent.name,
    "plugin.failed": () => `${data.plugin_name}: ${data.reason}`,
  };
  try {
    const text = String((texts[name] ?? (() => JSON.stringify(data)))());
    return text
      .slice(0, WORDS_CHARS_MAX * 2)
      .replace(/\s+/g, " ")
      .slice(0, WORDS_CHARS_MAX);
  } catch {
    // An adopted log may hold payloads of another shape.
    return JSON.stringify(data).slice(0, WORDS_CHARS_MAX);
  }
}
