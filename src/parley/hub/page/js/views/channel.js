/** A channel: what it is for, and all its topics, most recent first, page by page. */

import { createTopic } from "../creating.js";
import { createTopicRow, updateTopicRow } from "../topic_rows.js";
import { everyNowAndThen } from "../time.js";
import { h, reconcile, replace } from "../dom.js";
import { icon } from "../icons.js";
import { throttle } from "../throttle.js";

const DRAW_EVERY_MS = 200;

export function mount(root, app, { channel_id: channelId }) {
  const { store, unread, lastMessages } = app;
  const title = h("h1");
  const note = h("p", { class: "page-note" });
  const add = h(
    "button",
    { type: "button", class: "button button-primary", onClick: () => createTopic(app, store.channels.get(channelId)) },
    icon("plus"),
    "New topic",
  );
  const list = h("ul", { class: "topic-table", "aria-label": "Topics" });
  const more = h(
    "button",
    { type: "button", class: "button page-more", onClick: () => store.loadTopics(channelId).catch(() => {}) },
    "More topics",
  );
  const state = h("div");
  const page = h(
    "div",
    { class: "page" },
    h("div", { class: "page-head" }, h("div", null, title, note), add),
    state,
    list,
    more,
  );

  function draw() {
    const channel = store.channels.get(channelId);
    add.hidden = channel === undefined;
    if (channel === undefined) {
      more.hidden = true;
      if (store.loaded) replace(state, h("p", { class: "notice" }, "There is no such channel in this workspace."));
      return;
    }
    title.textContent = channel.name;
    note.textContent = channel.description ?? "";
    app.setTitle(channel.name);
    const topics = store.topicsOf(channelId);
    reconcile(
      list,
      topics,
      (topic) => topic.id,
      (topic) => createTopicRow(app, topic),
      (node, topic) => updateTopicRow(app, node, topic),
    );
    const isEmpty = topics.length === 0 && store.topicsLoaded(channelId);
    replace(
      state,
      isEmpty
        ? h("p", { class: "notice" }, "No topics yet. Agents and people talk in topics: make the first one.")
        : null,
    );
    more.hidden = !store.topicsLoaded(channelId) || !store.hasMoreTopics(channelId);
    if (!store.topicsLoaded(channelId)) store.loadTopics(channelId).catch(() => {});
    void lastMessages.load(channelId);
  }

  const drawSoon = throttle(draw, DRAW_EVERY_MS);
  const stops = [
    store.onChange(drawSoon),
    unread.onChange(drawSoon),
    lastMessages.onChange(drawSoon),
    everyNowAndThen(drawSoon),
    drawSoon.cancel,
    app.commands.add({
      id: "topic.create",
      title: "New topic in this channel",
      keys: "c",
      run: () => add.click(),
      when: () => !add.hidden,
    }),
  ];
  root.append(page);
  draw();
  return {
    unmount() {
      for (const stop of stops) stop();
      page.remove();
    },
  };
}
