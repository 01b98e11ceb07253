/**
 * The last message of each topic, for pages that list topics. A channel's newest messages bring those of its busiest
 * topics in one request; the feed brings the rest.
 */

import { Emitter } from "./emitter.js";
import { caughtUp } from "./topic/changes.js";

export class LastMessages {
  #api;
  #messages = new Map();
  #asked = new Set();
  #changes = new Emitter();

  constructor(api) {
    this.#api = api;
  }

  onChange(listener) {
    return this.#changes.on(listener);
  }

  /** The last message that is known of a topic, or null. */
  of(topicId) {
    return this.#messages.get(topicId) ?? null;
  }

  /** Reads a channel's newest messages, once. */
  async load(channelId) {
    if (this.#asked.has(channelId)) return;
    this.#asked.add(channelId);
    try {
      const { messages } = await this.#api.get("/api/v1/messages", { channel_id: channelId });
      for (const message of messages) this.#keep(message);
      this.#changes.emit();
    } catch {
      this.#asked.delete(channelId);
    }
  }

  apply(event) {
    if (event.name === "message.created") this.#keep(event.data.message);
    else if (event.entity.type !== "message" || !this.#change(event)) return;
    this.#changes.emit();
  }

  /** Brings a last message up to an event; true if it was one. */
  #change(event) {
    const found = [...this.#messages].find(([, message]) => message.id === event.entity.id);
    if (found === undefined) return false;
    this.#replace(found[0], caughtUp(found[1], [event]));
    return true;
  }

  #keep(message) {
    if (message.id > (this.of(message.topic_id)?.id ?? "")) this.#messages.set(message.topic_id, message);
  }

  /** A message that left its topic was not the last one after all; which one is, the next message will tell. */
  #replace(topicId, message) {
    if (message.topic_id === topicId) this.#messages.set(topicId, message);
    else this.#messages.delete(topicId);
  }
}
