/**
 * What the person has not seen yet, per topic.
 *
 * This browser keeps, per database, the last message seen of each topic; what was there before the first visit counts
 * as seen. A topic is unread when its last message is newer. How many there are is counted live by the feed; what came
 * while the page was closed is counted from the topic's newest page, when somebody looks at the topic in a list, one
 * topic at a time.
 */

import { Emitter } from "./emitter.js";
import { oncePerFrame } from "./dom.js";
import { throttle } from "./throttle.js";

const SAVE_EVERY_MS = 300;

export class Unread {
  #api;
  #prefs;
  #store;
  #seen;
  #counts = new Map();
  #queue = new Set();
  #counting = null;
  #changes = new Emitter();
  #tell = oncePerFrame(() => this.#changes.emit());
  #save = throttle(() => this.#prefs.set("seen", this.#seen), SAVE_EVERY_MS);

  constructor({ api, prefs, store, now }) {
    this.#api = api;
    this.#prefs = prefs;
    this.#store = store;
    if (prefs.get("first_visit_at") === null) prefs.set("first_visit_at", now);
    this.#seen = prefs.get("seen", {});
    prefs.onChange((name) => name === "seen" && this.#takeFromOtherWindow(prefs.get("seen", {})));
  }

  onChange(listener) {
    return this.#changes.on(listener);
  }

  isUnread(topic) {
    const isNew = this.#isNew(topic.id, { id: topic.last_message_id, created_at: topic.last_message_at });
    return isNew && this.#counts.get(topic.id)?.count !== 0;
  }

  /** For a topic that is shown: null when all is read, else `{count, more}`; `count` is null until it is counted. */
  of(topic) {
    if (!this.isUnread(topic)) return null;
    const known = this.#counts.get(topic.id);
    if (known !== undefined) return known;
    this.#queue.add(topic.id);
    void this.#countQueue();
    return { count: null, more: false };
  }

  /** The last message seen of a topic, or null. */
  seenUpTo(topicId) {
    return this.#seen[topicId] ?? null;
  }

  /** The last of these messages, oldest first, that was seen; null if none is known to have been. */
  lastSeenAmong(topicId, messages) {
    return this.seenUpTo(topicId) ?? messages.findLast((message) => !this.#isNew(topicId, message))?.id ?? null;
  }

  markSeen(topicId, messageId) {
    const last = this.#store.topics.get(topicId)?.last_message_id ?? "";
    const upTo = messageId > last ? messageId : last;
    if ((this.#seen[topicId] ?? "") >= upTo) return;
    this.#seen = { ...this.#seen, [topicId]: upTo };
    this.#counts.set(topicId, { count: 0, more: false, upTo });
    this.#save();
    this.#tell();
  }

  /** Counts along with the feed. */
  apply(event) {
    if (event.name === "message.moved_topic") {
      this.#counts.delete(event.data.old_topic_id);
      this.#counts.delete(event.data.new_topic_id);
      return this.#tell();
    }
    if (event.name !== "message.created") return;
    const { message } = event.data;
    if (this.#counting?.topicId === message.topic_id) this.#counting.arrived.push(message);
    this.#countOneMore(message);
  }

  #countOneMore(message) {
    const known = this.#counts.get(message.topic_id);
    if (known === undefined || message.id <= known.upTo || !this.#countsAsNew(message)) return;
    this.#counts.set(message.topic_id, { count: known.count + 1, more: known.more, upTo: message.id });
    this.#tell();
  }

  #takeFromOtherWindow(seen) {
    for (const [topicId, upTo] of Object.entries(seen)) {
      if ((this.#seen[topicId] ?? "") >= upTo) continue;
      this.#seen = { ...this.#seen, [topicId]: upTo };
      this.#counts.delete(topicId);
    }
    this.#tell();
  }

  async #countQueue() {
    if (this.#counting !== null) return;
    for (const topicId of this.#queue) {
      this.#queue.delete(topicId);
      this.#counting = { topicId, arrived: [] };
      try {
        await this.#count(topicId);
      } catch {
        // The mark stays without a number; the next look at the topic counts again.
      }
    }
    this.#counting = null;
  }

  async #count(topicId) {
    const { messages, has_more } = await this.#api.get("/api/v1/messages", { topic_id: topicId });
    const fresh = messages.filter((message) => this.#countsAsNew(message));
    const upTo = messages[0]?.id ?? "";
    this.#counts.set(topicId, { count: fresh.length, more: has_more && fresh.length === messages.length, upTo });
    // Those that came while the page was on its way may or may not be on it.
    for (const message of this.#counting.arrived) this.#countOneMore(message);
    this.#tell();
  }

  #countsAsNew(message) {
    return message.sender !== this.#prefs.get("name") && this.#isNew(message.topic_id, message);
  }

  #isNew(topicId, { id, created_at: createdAt }) {
    if (id === null || id === undefined) return false;
    const seen = this.seenUpTo(topicId);
    return seen === null ? (createdAt ?? "") > this.#prefs.get("first_visit_at") : id > seen;
  }
}
