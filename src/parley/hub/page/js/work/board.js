/**
 * Who does what: tasks, leases of paths and agents, kept true by the feed.
 *
 * Events of these carry the whole row, so the last one of a thing is what it is. Rows that come by HTTP are as new as
 * the feed was when they were asked for; what an event told since then stays. How long a claim goes on is not in the
 * log, since renewing one is no event: it is asked for again now and then, and before an end is believed.
 */

import { Emitter } from "../emitter.js";
import { oncePerFrame } from "../dom.js";

const ROWS_MAX = 500;
const KINDS = {
  tasks: { path: "/api/v1/tasks", query: { limit: ROWS_MAX }, entity: "task", keyOf: (task) => task.id },
  leases: {
    path: "/api/v1/leases",
    query: { status: "active", limit: ROWS_MAX },
    entity: "lease",
    keyOf: (lease) => lease.id,
  },
  agents: { path: "/api/v1/agents", query: {}, entity: "agent", keyOf: (agent) => agent.name },
};

export class Board {
  #api;
  #feed;
  #changes = new Emitter();
  #tell = oncePerFrame(() => this.#changes.emit());
  #told = new Map();
  #loading = null;

  constructor(api, feed) {
    this.#api = api;
    this.#feed = feed;
    this.tasks = new Map();
    this.leases = new Map();
    this.agents = new Map();
    this.loaded = false;
  }

  onChange(listener) {
    return this.#changes.on(listener);
  }

  /** Asks for everything as it is now. Several callers at once share one request. */
  load() {
    this.#loading ??= this.#load().finally(() => (this.#loading = null));
    return this.#loading;
  }

  /** Asks for the task of one topic: of many tasks, `load` brings only the newest. */
  async loadTaskOf(topicId) {
    const since = this.#feed.cursor;
    const { tasks } = await this.#api.get(KINDS.tasks.path, { topic_id: topicId, limit: 1 });
    for (const task of tasks) if (!this.#isNewer("tasks", task.id, since)) this.keep("tasks", task);
  }

  /** The task that a topic belongs to, or null. */
  taskOf(topicId) {
    let found = null;
    for (const task of this.tasks.values()) {
      if (task.topic_id === topicId && (found === null || task.created_at > found.created_at)) found = task;
    }
    return found;
  }

  /** Takes in a row that an answer brought. */
  keep(kind, row) {
    this[kind].set(KINDS[kind].keyOf(row), row);
    this.#tell();
  }

  /** Brings the state up to an event; once or twice is the same. */
  apply(event) {
    const [family] = event.name.split(".");
    const kind = Object.keys(KINDS).find((each) => KINDS[each].entity === family);
    const row = event.data?.[family];
    if (kind === undefined || row === undefined) return;
    const key = KINDS[kind].keyOf(row);
    this.#told.set(`${kind} ${key}`, event.event_id);
    // An event does not say when the holder was last seen or renewed; what is known of it stays.
    this[kind].set(key, { ...this[kind].get(key), ...row });
    this.#tell();
  }

  async #load() {
    const since = this.#feed.cursor;
    const kinds = Object.entries(KINDS);
    const answers = await Promise.all(kinds.map(([, { path, query }]) => this.#api.get(path, query)));
    for (const [index, [kind, { keyOf }]] of kinds.entries()) {
      const rows = answers[index][kind];
      const there = new Set(rows.map(keyOf));
      for (const key of this[kind].keys()) {
        if (!there.has(key) && rows.length < ROWS_MAX && !this.#isNewer(kind, key, since)) this[kind].delete(key);
      }
      for (const row of rows) if (!this.#isNewer(kind, keyOf(row), since)) this[kind].set(keyOf(row), row);
    }
    this.loaded = true;
    this.#tell();
  }

  #isNewer(kind, key, since) {
    return (this.#told.get(`${kind} ${key}`) ?? 0) > since;
  }
}
