/** Topics as the rows of a page: title, channel if asked for, unread mark and last activity. */

import { exactTime, relativeTime } from "./time.js";
import { h } from "./dom.js";
import { setBadge } from "./channel_list.js";
import { topicHref } from "./router.js";

export function createTopicRow(app, topic, { withChannel = false } = {}) {
  const title = h("span", { class: "topic-row-title" });
  const channel = withChannel ? h("span", { class: "topic-row-channel" }) : null;
  const badge = h("span", { class: "badge" });
  const time = h("time", { class: "topic-time" });
  const link = h("a", { class: "topic-row", href: topicHref(topic.id) }, title, channel, badge, time);
  const node = h("li", null, link);
  node.parts = { title, channel, badge, time, link };
  updateTopicRow(app, node, topic);
  return node;
}

export function updateTopicRow(app, node, topic) {
  const { title, channel, badge, time, link } = node.parts;
  const fresh = app.unread.of(topic);
  title.textContent = topic.title;
  if (channel !== null) channel.textContent = app.store.channels.get(topic.channel_id)?.name ?? "";
  setBadge(badge, fresh);
  link.dataset.unread = String(fresh !== null);
  time.textContent = relativeTime(topic.updated_at);
  time.dateTime = topic.updated_at;
  time.title = exactTime(topic.updated_at);
}
