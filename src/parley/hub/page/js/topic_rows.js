/** Topics as the rows of a page: title, channel if asked for, what was said last, unread mark and last activity. */

import { exactTime, relativeTime } from "./time.js";
import { h, replace } from "./dom.js";
import { headOf } from "./topic/quote_node.js";
import { senderName } from "./avatar.js";
import { setBadge } from "./channel_list.js";
import { topicHref } from "./router.js";

export function createTopicRow(app, topic, { withChannel = false } = {}) {
  const title = h("span", { class: "topic-row-title" });
  const channel = withChannel ? h("span", { class: "topic-row-channel" }) : null;
  const badge = h("span", { class: "badge" });
  const time = h("time", { class: "topic-time" });
  const last = h("span", { class: "topic-row-last" });
  const link = h(
    "a",
    { class: "topic-row", href: topicHref(topic.id) },
    h("span", { class: "topic-row-names" }, title, channel),
    last,
    badge,
    time,
  );
  const node = h("li", null, link);
  node.parts = { title, channel, last, badge, time, link };
  updateTopicRow(app, node, topic);
  return node;
}

export function updateTopicRow(app, node, topic) {
  const { title, channel, last, badge, time, link } = node.parts;
  const message = app.lastMessages.of(topic.id);
  if (last.message !== message) drawLast(last, message);
  const fresh = app.unread.of(topic);
  title.textContent = topic.title;
  if (channel !== null) channel.textContent = app.store.channels.get(topic.channel_id)?.name ?? "";
  setBadge(badge, fresh);
  link.dataset.unread = String(fresh !== null);
  time.textContent = relativeTime(topic.updated_at);
  time.dateTime = topic.updated_at;
  time.title = exactTime(topic.updated_at);
}

function drawLast(place, message) {
  place.message = message;
  if (message === null) return void replace(place);
  const text = message.deleted_at === null ? headOf(message.content_raw) : "deleted message";
  replace(place, senderName(message.sender), " ", text);
}
