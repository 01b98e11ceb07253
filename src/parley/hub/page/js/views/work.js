/** Work: who has claimed which task and leased which paths, who is here, and what is still open. */

import { createAgentRow, createLeaseRow, createTaskRow } from "../work/rows.js";
import { tickTimes, updateAgentRow, updateLeaseRow, updateTaskRow } from "../work/rows.js";
import { createWorkActions } from "../work/actions.js";
import { errorNotice } from "../errors.js";
import { everyNowAndThen } from "../time.js";
import { h, reconcile, replace } from "../dom.js";
import { icon } from "../icons.js";
import { throttle } from "../throttle.js";

const DRAW_EVERY_MS = 200;
const TICK_MS = 1000;
const ASK_AGAIN_MS = 5000;
const ENDED_MAX = 50;

export function mount(root, app) {
  const view = new WorkView(app);
  root.append(view.element);
  app.setTitle("Work");
  view.start();
  return view;
}

class WorkView {
  #asked = 0;

  constructor(app) {
    this.app = app;
    this.actions = createWorkActions(app);
    this.channel = h("select", { class: "input work-channel", "aria-label": "Channel", onChange: () => this.draw() });
    this.add = h(
      "button",
      { type: "button", class: "button button-primary", onClick: () => this.create() },
      icon("plus"),
      "New task",
    );
    this.notice = h("div");
    this.parts = {
      claimed: section("In work", "Nobody has claimed a task."),
      open: section("Open", "No open tasks. Make one here, or from a shell:", 'parley task create "Fix the build" --channel web'),
      ended: section("Ended lately", "Nothing has ended yet."),
      leases: section("Leased paths", "No paths are leased. An agent leases what it works on:", "parley lease acquire 'src/**'"),
      agents: section("Who is here", "No agent has registered. Set one up with:", "parley setup claude-code"),
    };
    this.element = h(
      "div",
      { class: "page work" },
      h("div", { class: "page-head" }, h("div", null, h("h1", null, "Work")), this.channel, this.add),
      this.notice,
      h(
        "div",
        { class: "work-columns" },
        h("div", null, this.parts.claimed.element, this.parts.open.element, this.parts.ended.element),
        h("div", null, this.parts.agents.element, this.parts.leases.element),
      ),
    );
    const drawSoon = throttle(() => this.draw(), DRAW_EVERY_MS);
    const ticking = setInterval(() => this.tick(), TICK_MS);
    this.stops = [
      app.board.onChange(drawSoon),
      app.store.onChange(drawSoon),
      app.prefs.onChange((name) => name === "name" && this.draw()),
      app.feed.onState((state) => state === "live" && this.load()),
      everyNowAndThen(() => this.load()),
      drawSoon.cancel,
      () => clearInterval(ticking),
      app.commands.add({ id: "task.create", title: "New task", keys: "c", run: () => this.create() }),
    ];
  }

  unmount() {
    for (const stop of this.stops) stop();
    this.element.remove();
  }

  start() {
    this.draw();
    this.load();
  }

  load() {
    this.#asked = Date.now();
    this.app.board.load().then(
      () => replace(this.notice),
      (error) => replace(this.notice, errorNotice(error)),
    );
  }

  create() {
    const channelId = this.channel.value || this.app.store.channelList[0]?.id;
    if (channelId !== undefined) return void this.actions.create(channelId);
    this.app.commands.run("channel.create");
  }

  /** Counts down. A claim that seems over may have been renewed, which no event tells: the hub is asked. */
  tick() {
    if (document.visibilityState !== "visible") return;
    if (tickTimes(this.element) && Date.now() - this.#asked > ASK_AGAIN_MS) this.load();
  }

  draw() {
    const { app, actions, parts } = this;
    this.drawChannels();
    const wanted = this.channel.value;
    const tasks = [...app.board.tasks.values()].filter((task) => wanted === "" || task.channel_id === wanted);
    const by = (...status) => tasks.filter((task) => status.includes(task.status));
    const ended = by("completed", "cancelled").sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
    const draws = [
      [parts.claimed, by("claimed").sort(oldestFirst("claimed_at")), "task"],
      [parts.open, by("open").sort(oldestFirst("created_at")), "task"],
      [parts.ended, ended.slice(0, ENDED_MAX), "task"],
      [parts.leases, [...app.board.leases.values()].filter((lease) => lease.status === "active"), "lease"],
      [parts.agents, [...app.board.agents.values()].sort(lastSeenFirst), "agent"],
    ];
    for (const [part, rows, kind] of draws) drawPart(app, actions, part, rows, kind, app.board.loaded);
  }

  drawChannels() {
    const channels = this.app.store.channelList;
    const shown = JSON.stringify(channels.map(({ id, name }) => [id, name]));
    if (this.channel.shown === shown) return;
    this.channel.shown = shown;
    const chosen = this.channel.value;
    replace(
      this.channel,
      h("option", { value: "" }, "All channels"),
      channels.map(({ id, name }) => h("option", { value: id, selected: id === chosen }, name)),
    );
  }
}

function drawPart(app, actions, part, rows, kind, loaded) {
  const kinds = {
    task: [(row) => row.id, createTaskRow, updateTaskRow],
    lease: [(row) => row.id, createLeaseRow, updateLeaseRow],
    agent: [(row) => row.name, (_app, _actions, row) => createAgentRow(app, row), (_a, _b, node, row) => updateAgentRow(app, node, row)],
  };
  const [keyOf, create, update] = kinds[kind];
  part.count.textContent = rows.length === 0 ? "" : String(rows.length);
  part.empty.hidden = rows.length > 0 || !loaded;
  reconcile(
    part.list,
    rows,
    keyOf,
    (row) => create(app, actions, row),
    (node, row) => update(app, actions, node, row),
  );
}

function section(title, empty, command = null) {
  const count = h("span", { class: "work-count" });
  const list = h("ul", { class: "work-list", "aria-label": title });
  const hint = h("div", { class: "work-empty", hidden: true }, h("p", null, empty), command && h("pre", null, command));
  const element = h("section", { class: "work-section" }, h("h2", null, title, " ", count), list, hint);
  return { element, list, count, empty: hint };
}

function oldestFirst(column) {
  return (a, b) => (a[column] < b[column] ? -1 : 1);
}

function lastSeenFirst(a, b) {
  if (a.state !== b.state) return a.state === "active" ? -1 : 1;
  return a.last_seen_at < b.last_seen_at ? 1 : -1;
}
