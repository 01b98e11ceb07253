/**
 * All channels, each with its most recent topics, in the sidebar.
 *
 * Topics are loaded page by page when a channel is unfolded, and shown a few at a time. A filter also looks into the
 * pages that were not loaded yet. Everything is drawn again at most a few times a second, into the nodes that are
 * there.
 */

import { Emitter } from "./emitter.js";
import { channelHref, topicHref } from "./router.js";
import { createTopic } from "./creating.js";
import { everyNowAndThen, exactTime, relativeTime } from "./time.js";
import { h, reconcile } from "./dom.js";
import { icon } from "./icons.js";
import { throttle } from "./throttle.js";

const SHOWN_FIRST = 8;
const SHOWN_MORE = 40;
const DRAW_EVERY_MS = 120;

export function mountChannelList(app) {
  const { store, unread, router, prefs } = app;
  const element = h("div", { class: "channel-list", dataset: { testid: "channel-list" } });
  const shown = new Map();
  const unreadTopics = new Emitter();
  let filter = "";
  let lastUnread = -1;

  const isFolded = (channel) => filter === "" && prefs.get("folded", []).includes(channel.id);
  const matches = (text) => text.toLowerCase().includes(filter);

  function draw() {
    const channels = store.channelList
      .map(rowsOf)
      .filter((entry) => filter === "" || entry.topics.length > 0 || entry.matches);
    reconcile(element, channels, ({ channel }) => channel.id, createChannelNode, updateChannelNode);
    element.dataset.empty = String(store.loaded && channels.length === 0);
    const count = [...store.topics.values()].filter((topic) => unread.isUnread(topic)).length;
    if (count !== lastUnread) unreadTopics.emit((lastUnread = count));
    loadWhatIsNeeded(channels);
  }

  function rowsOf(channel) {
    const known = store.topicsOf(channel.id);
    const inChannel = matches(channel.name);
    const topics = filter === "" || inChannel ? known : known.filter((topic) => matches(topic.title));
    const most = shown.get(channel.id) ?? SHOWN_FIRST;
    const folded = isFolded(channel);
    return {
      channel,
      folded,
      matches: inChannel,
      topics: folded ? [] : topics.slice(0, most),
      hasMore: !folded && (topics.length > most || (store.hasMoreTopics(channel.id) && store.topicsLoaded(channel.id))),
      isUnread: known.some((topic) => unread.isUnread(topic)),
    };
  }

  /**
   * The first page of what is unfolded at once; of what is folded, for its unread mark, and with a filter all pages,
   * one by one.
   */
  function loadWhatIsNeeded(channels) {
    if (app.feed.state === "lost" || app.feed.state === "gone") return;
    for (const { channel, folded } of channels) {
      if (!folded && !store.topicsLoaded(channel.id)) store.loadTopics(channel.id).catch(() => {});
    }
    const next = store.channelList.find(({ id }) =>
      filter === "" ? !store.topicsLoaded(id) : store.hasMoreTopics(id),
    );
    if (next !== undefined) store.loadTopics(next.id).catch(() => {});
  }

  function createChannelNode(entry) {
    const { channel } = entry;
    const fold = h("button", { type: "button", class: "fold", onClick: () => toggleFold(channel) }, icon("chevron"));
    const link = h(
      "a",
      { class: "channel-link", href: channelHref(channel.id) },
      h("span", { class: "channel-name" }, channel.name),
    );
    const add = h(
      "button",
      {
        type: "button",
        class: "icon-button",
        "aria-label": `New topic in ${channel.name}`,
        title: "New topic",
        onClick: () => createTopic(app, channel),
      },
      icon("plus"),
    );
    const topics = h("ul", { class: "topic-list", id: `topics-of-${channel.id}` });
    const more = h("button", { type: "button", class: "more-topics", onClick: () => showMore(channel) }, "More topics");
    fold.setAttribute("aria-controls", topics.id);
    const node = h(
      "section",
      { class: "channel", "aria-label": channel.name },
      h("div", { class: "channel-head" }, fold, link, add),
      topics,
      more,
    );
    node.parts = { fold, link, topics, more };
    updateChannelNode(node, entry);
    return node;
  }

  function updateChannelNode(node, { channel, folded, topics, hasMore, isUnread }) {
    const { parts } = node;
    parts.fold.setAttribute("aria-expanded", String(!folded));
    parts.fold.setAttribute("aria-label", `${folded ? "Unfold" : "Fold"} ${channel.name}`);
    node.dataset.unread = String(isUnread);
    setCurrent(parts.link, router.current?.params.channel_id === channel.id && router.current.route.name === "channel");
    reconcile(parts.topics, topics, (topic) => topic.id, createTopicNode, updateTopicNode);
    parts.more.hidden = !hasMore;
  }

  function toggleFold(channel) {
    const folded = prefs.get("folded", []);
    const without = folded.filter((id) => id !== channel.id);
    prefs.set("folded", without.length < folded.length ? without : [...folded, channel.id]);
    draw();
  }

  function showMore(channel) {
    const most = (shown.get(channel.id) ?? SHOWN_FIRST) + SHOWN_MORE;
    shown.set(channel.id, most);
    if (store.topicsOf(channel.id).length < most) store.loadTopics(channel.id).catch(() => {});
    draw();
  }

  function createTopicNode(topic) {
    const title = h("span", { class: "topic-title" });
    const badge = h("span", { class: "badge" });
    const time = h("time", { class: "topic-time" });
    const link = h(
      "a",
      { class: "topic-link", href: topicHref(topic.id), dataset: { topicId: topic.id } },
      title,
      time,
      badge,
    );
    const node = h("li", null, link);
    node.parts = { title, badge, time, link };
    updateTopicNode(node, topic);
    return node;
  }

  function updateTopicNode(node, topic) {
    const { title, badge, time, link } = node.parts;
    const fresh = unread.of(topic);
    setText(title, topic.title);
    link.title = topic.title;
    setText(time, relativeTime(topic.updated_at));
    time.dateTime = topic.updated_at;
    time.title = exactTime(topic.updated_at);
    setBadge(badge, fresh);
    link.dataset.unread = String(fresh !== null);
    setCurrent(link, router.current?.params.topic_id === topic.id);
  }

  const drawSoon = throttle(draw, DRAW_EVERY_MS);
  const stops = [
    store.onChange(drawSoon),
    unread.onChange(drawSoon),
    router.onChange(drawSoon),
    app.feed.onState(drawSoon),
    everyNowAndThen(drawSoon),
  ];
  draw();
  return {
    element,
    onUnreadTopics: (listener) => unreadTopics.on(listener),
    setFilter(text) {
      filter = text.trim().toLowerCase();
      draw();
    },
    unmount() {
      for (const stop of stops) stop();
      drawSoon.cancel();
    },
  };
}

/** The number of unread messages, or a dot while it is not known. */
export function setBadge(badge, fresh) {
  badge.hidden = fresh === null;
  if (fresh === null) return setText(badge, "");
  const count = fresh.count === null ? "" : `${fresh.count}${fresh.more ? "+" : ""}`;
  setText(badge, count);
  badge.classList.toggle("badge-dot", count === "");
  badge.setAttribute("aria-label", count === "" ? "unread" : `${count} unread`);
  badge.setAttribute("role", "img");
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setCurrent(link, isCurrent) {
  if (isCurrent) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}
