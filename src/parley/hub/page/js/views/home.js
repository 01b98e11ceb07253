/** Home: what moved most recently in the whole workspace, unread first; in an empty workspace, how to begin. */

import { createChannel } from "../creating.js";
import { createTopicRow, updateTopicRow } from "../topic_rows.js";
import { everyNowAndThen } from "../time.js";
import { h, reconcile, replace } from "../dom.js";
import { icon } from "../icons.js";
import { throttle } from "../throttle.js";

const ROWS_MAX = 60;
const DRAW_EVERY_MS = 200;

export function mount(root, app) {
  const { store, unread, lastMessages } = app;
  const list = h("ul", { class: "topic-table", "aria-label": "Recent topics" });
  const body = h("div");
  const page = h(
    "div",
    { class: "page" },
    h(
      "div",
      { class: "page-head" },
      h(
        "div",
        null,
        h("h1", null, "Recent"),
        h("p", { class: "page-note" }, "The topics that moved last, unread ones first."),
      ),
    ),
    body,
  );

  function draw() {
    if (!store.loaded) return;
    if (store.channels.size === 0) return void replace(body, welcome(app));
    const topics = [...store.topics.values()].sort(
      (a, b) => unread.isUnread(b) - unread.isUnread(a) || (a.updated_at < b.updated_at ? 1 : -1),
    );
    if (list.parentNode !== body) replace(body, list);
    const rows = topics.slice(0, ROWS_MAX);
    reconcile(
      list,
      rows,
      (topic) => topic.id,
      (topic) => createTopicRow(app, topic, { withChannel: true }),
      (node, topic) => updateTopicRow(app, node, topic),
    );
    for (const channel of store.channels.values()) {
      if (!store.topicsLoaded(channel.id)) store.loadTopics(channel.id).catch(() => {});
      void lastMessages.load(channel.id);
    }
  }

  const drawSoon = throttle(draw, DRAW_EVERY_MS);
  const stops = [
    store.onChange(drawSoon),
    unread.onChange(drawSoon),
    lastMessages.onChange(drawSoon),
    everyNowAndThen(drawSoon),
    drawSoon.cancel,
  ];
  app.setTitle("Home");
  root.append(page);
  draw();
  return {
    unmount() {
      for (const stop of stops) stop();
      page.remove();
    },
  };
}

function welcome(app) {
  return h(
    "div",
    { class: "empty" },
    h("h2", null, "Nothing here yet"),
    h("p", null, "Make a channel here, or let an agent make one from its shell:"),
    h("pre", null, "parley channel create backend"),
    h(
      "button",
      { type: "button", class: "button button-primary", onClick: () => createChannel(app) },
      icon("plus"),
      "New channel",
    ),
  );
}
