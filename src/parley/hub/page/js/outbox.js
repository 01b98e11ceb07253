/**
 * Messages on their way to the hub.
 *
 * Each has its idempotency key from the moment it is written, and is kept in this browser until the hub has confirmed
 * it. So a send can be repeated after a lost connection, a reload, or from two windows at once, and has one effect. The
 * messages of a topic go one after the other, in the order in which they were written; one that is refused for good
 * waits for the person.
 */

import { Emitter } from "./emitter.js";
import { newKey } from "./api.js";

const KEPT = "outbox:";
const WAIT_MAX_SECONDS = 15;

export class Outbox {
  #api;
  #prefs;
  #entries = new Map();
  #busy = new Set();
  #timers = new Map();
  #stops;
  #changes = new Emitter();
  #confirmed = new Emitter();

  constructor({ api, feed, prefs }) {
    this.#api = api;
    this.#prefs = prefs;
    const kept = prefs.names(KEPT).map((name) => prefs.get(name));
    for (const entry of kept.sort((a, b) => (a.written_at < b.written_at ? -1 : 1))) this.#restore(entry);
    this.#stops = [
      feed.onState((state) => state === "live" && this.resume()),
      feed.onEvent((event) => event.name === "message.created" && this.#recognise(event.data.message)),
      prefs.onChange((name) => name.startsWith(KEPT) && this.#forgetRemoved(name)),
    ];
  }

  stop() {
    for (const stop of this.#stops) stop();
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }

  /** Called with a topic's id when its entries changed. */
  onChange(listener) {
    return this.#changes.on(listener);
  }

  /** Called with each message that the hub confirmed. */
  onConfirmed(listener) {
    return this.#confirmed.on(listener);
  }

  /**
   * What is still to be shown as pending in a topic, oldest first: `{key, content_raw, state, error, retryAt, ...}`.
   */
  pendingIn(topicId) {
    return this.#of(topicId).filter((entry) => !entry.arrived);
  }

  send({ topicId, sender, content, replyTo }) {
    const entry = {
      key: newKey(),
      topic_id: topicId,
      sender,
      content_raw: content,
      reply_to: replyTo ?? null,
      written_at: new Date().toISOString(),
    };
    this.#prefs.set(KEPT + entry.key, entry);
    this.#entries.set(entry.key, { ...entry, state: "waiting", error: null, retryAt: null, tries: 0, arrived: false });
    void this.#drain(topicId);
  }

  retry(key) {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#change(key, { state: "waiting", error: null, retryAt: null });
    void this.#drain(entry.topic_id);
  }

  /** Gives a message up; the answer is its text. */
  discard(key) {
    const entry = this.#entries.get(key);
    this.#remove(key);
    return entry?.content_raw ?? "";
  }

  /** Tries everything that waits, now. */
  resume() {
    for (const topicId of new Set([...this.#entries.values()].map((entry) => entry.topic_id)))
      void this.#drain(topicId);
  }

  #of(topicId) {
    return [...this.#entries.values()].filter((entry) => entry.topic_id === topicId);
  }

  async #drain(topicId) {
    if (this.#busy.has(topicId)) return;
    this.#busy.add(topicId);
    clearTimeout(this.#timers.get(topicId));
    let entry;
    while ((entry = this.#of(topicId).find((one) => one.state !== "failed")) !== undefined) {
      if (!(await this.#sendOne(entry))) break;
    }
    this.#busy.delete(topicId);
  }

  /** Sends one; false if the topic's queue has to wait. */
  async #sendOne(entry) {
    this.#change(entry.key, { state: "sending", tries: entry.tries + 1 });
    const { topic_id, sender, content_raw, reply_to, key } = entry;
    try {
      const answer = await this.#api.post("/api/v1/messages", { topic_id, sender, content_raw, reply_to }, { key });
      this.#confirmed.emit(answer.message);
      this.#remove(key);
    } catch (error) {
      // The first try succeeded, and its message has been archived since: done.
      if (error.code === "MESSAGE_ARCHIVED") this.#remove(key);
      else if (error.transient) return this.#wait(entry, error);
      else if (error.status === 401) this.#change(key, { state: "waiting" });
      else this.#change(key, { state: "failed", error, arrived: false });
      if (error.status === 401) return false;
    }
    return true;
  }

  #wait(entry, error) {
    const seconds = error.retryAfterSeconds ?? Math.min(2 ** entry.tries, WAIT_MAX_SECONDS);
    this.#change(entry.key, { state: "waiting", error, retryAt: Date.now() + seconds * 1000 });
    this.#timers.set(
      entry.topic_id,
      setTimeout(() => this.#drain(entry.topic_id), seconds * 1000),
    );
    return false;
  }

  /** The feed may bring a message before its answer comes: then it is no longer shown as pending, so never twice. */
  #recognise(message) {
    const same = this.#of(message.topic_id).find(
      (entry) =>
        !entry.arrived &&
        entry.tries > 0 &&
        entry.sender === message.sender &&
        entry.content_raw === message.content_raw &&
        entry.reply_to === message.reply_to,
    );
    if (same !== undefined) this.#change(same.key, { arrived: true });
  }

  #change(key, changes) {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.set(key, { ...entry, ...changes });
    this.#changes.emit(entry.topic_id);
  }

  #remove(key) {
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    this.#prefs.remove(KEPT + key);
    if (entry !== undefined) this.#changes.emit(entry.topic_id);
  }

  #restore(entry) {
    this.#entries.set(entry.key, { ...entry, state: "waiting", error: null, retryAt: null, tries: 0, arrived: false });
  }

  /** Another window confirmed or discarded it. */
  #forgetRemoved(name) {
    const entry = this.#entries.get(name.slice(KEPT.length));
    if (entry === undefined || entry.state === "sending" || this.#prefs.get(name) !== null) return;
    this.#entries.delete(entry.key);
    this.#changes.emit(entry.topic_id);
  }
}
