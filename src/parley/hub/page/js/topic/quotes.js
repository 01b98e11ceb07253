/**
 * The messages that others reply to, for their quoted heads. Those on the page are at hand; others are read one by one
 * and kept for a while, newest use last.
 */

import { changeOf } from "./changes.js";

const KEPT_MAX = 400;
const AT_ONCE_MAX = 4;

export class Quotes {
  #api;
  #kept = new Map();
  #waiting = new Set();
  #running = 0;
  #onChange;

  /** `onChange` is told when a message came or changed. */
  constructor(api, onChange) {
    this.#api = api;
    this.#onChange = onChange;
  }

  /** The message; null if it does not exist; undefined while it is being read. */
  get(id) {
    if (!this.#kept.has(id)) {
      this.#waiting.add(id);
      this.#work();
      return undefined;
    }
    return this.#kept.get(id);
  }

  apply(event) {
    const change = changeOf(event);
    const known = change === null ? undefined : this.#kept.get(change.id);
    if (!known || known.version >= change.version) return;
    this.#kept.set(change.id, { ...known, ...change.changes, version: change.version });
    this.#onChange();
  }

  #work() {
    for (const id of this.#waiting) {
      if (this.#running >= AT_ONCE_MAX) return;
      this.#waiting.delete(id);
      this.#running += 1;
      void this.#read(id).finally(() => {
        this.#running -= 1;
        this.#work();
      });
    }
  }

  async #read(id) {
    if (this.#kept.has(id)) return;
    try {
      this.#keep(id, (await this.#api.get(`/api/v1/messages/${id}`)).message);
    } catch (error) {
      // Only a clear no is kept; after a lost connection the next drawing asks again.
      if (error.status === 404) this.#keep(id, null);
    }
  }

  #keep(id, message) {
    this.#kept.set(id, message);
    if (this.#kept.size > KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value);
    this.#onChange();
  }
}
