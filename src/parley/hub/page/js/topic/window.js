/**
 * The stretch of a topic's messages that is on the page: in order, without holes, and never more than so many.
 *
 * Ids of messages sort in the order of creation. `hasOlder` and `hasNewer` say whether the topic goes on beyond an end.
 * Changes come as rows and as events, in any order and more than once; the version of a message says which is newer.
 */

const MESSAGES_MAX = 250;

export class MessageWindow {
  messages = [];
  hasOlder = false;
  hasNewer = false;

  /** Starts again with these messages, oldest first. */
  reset(messages, { hasOlder, hasNewer }) {
    this.messages = messages;
    this.hasOlder = hasOlder;
    this.hasNewer = hasNewer;
  }

  get oldestId() {
    return this.messages[0]?.id ?? null;
  }

  get newestId() {
    return this.messages.at(-1)?.id ?? null;
  }

  get(id) {
    const at = this.#indexOf(id);
    return this.messages[at]?.id === id ? this.messages[at] : null;
  }

  /** Puts a page before the first message, and lets go of the newest ones beyond the limit. */
  addOlder(messages, hasOlder) {
    this.messages = [...messages.filter((message) => this.get(message.id) === null), ...this.messages];
    this.hasOlder = hasOlder;
    this.trimNewest();
  }

  /** Puts a page after the last message, and lets go of the oldest ones beyond the limit. */
  addNewer(messages, hasNewer) {
    this.messages = [...this.messages, ...messages.filter((message) => this.get(message.id) === null)];
    this.hasNewer = hasNewer;
    this.trimOldest();
  }

  /** Takes in one row, if it belongs into the stretch; true if something changed. */
  put(message) {
    const at = this.#indexOf(message.id);
    const known = this.messages[at];
    if (known?.id === message.id) {
      if (known.version >= message.version) return false;
      this.messages = this.messages.with(at, message);
      return true;
    }
    const isBefore = at === 0 && this.messages.length > 0;
    const isAfter = at === this.messages.length;
    if ((isBefore && this.hasOlder) || (isAfter && this.hasNewer)) return false;
    this.messages = this.messages.toSpliced(at, 0, message);
    return true;
  }

  /** Brings one message to a version, if it is here and older; true if something changed. */
  change(id, version, changes) {
    const at = this.#indexOf(id);
    const known = this.messages[at];
    if (known?.id !== id || known.version >= version) return false;
    this.messages = this.messages.with(at, { ...known, ...changes, version });
    return true;
  }

  remove(id) {
    const at = this.#indexOf(id);
    if (this.messages[at]?.id !== id) return false;
    this.messages = this.messages.toSpliced(at, 1);
    return true;
  }

  trimOldest() {
    const over = this.messages.length - MESSAGES_MAX;
    if (over <= 0) return;
    this.messages = this.messages.slice(over);
    this.hasOlder = true;
  }

  trimNewest() {
    if (this.messages.length <= MESSAGES_MAX) return;
    this.messages = this.messages.slice(0, MESSAGES_MAX);
    this.hasNewer = true;
  }

  /** Where a message is, or would be. */
  #indexOf(id) {
    let low = 0;
    let high = this.messages.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.messages[middle].id < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
