/**
 * What plugins found in the messages on the page.
 *
 * Findings are read for a batch of messages at a time: for pages as they come, and for a message after the feed said
 * that it was enriched. An edit makes them worthless at once, since their spans belong to the old text.
 */

const GATHER_MS = 60;
const BATCH_MAX = 100;

export class Enrichments {
  #api;
  #found = new Map();
  #asked = new Set();
  #timer = null;
  #failed = false;
  #onChange;

  constructor(api, onChange) {
    this.#api = api;
    this.#onChange = onChange;
  }

  /** The findings about one version of a message; asks for them if they are not known. */
  of(message) {
    const known = this.#found.get(message.id);
    if (known?.version === message.version) return known.list;
    if (message.deleted_at === null) this.#ask(message);
    return undefined;
  }

  /** A plugin's results replaced its earlier ones. */
  apply(event) {
    if (event.name === "message.enriched" && this.#found.delete(event.data.message_id)) this.#onChange();
  }

  /** Forgets messages that are no longer on the page. */
  keepOnly(messages) {
    const ids = new Set(messages.map((message) => message.id));
    for (const id of this.#found.keys()) if (!ids.has(id)) this.#found.delete(id);
  }

  /** Asks again for what could not be read; called when the connection is back. */
  resume() {
    if (!this.#failed) return;
    this.#failed = false;
    this.#found.clear();
    this.#onChange();
  }

  close() {
    clearTimeout(this.#timer);
  }

  #ask(message) {
    this.#asked.add(message);
    this.#timer ??= setTimeout(() => this.#read(), GATHER_MS);
  }

  async #read() {
    const batch = [...this.#asked].slice(0, BATCH_MAX);
    for (const message of batch) this.#asked.delete(message);
    let found = [];
    try {
      found = (await this.#api.get("/api/v1/enrichments", { message_id: [...new Set(batch.map(({ id }) => id))] }))
        .enrichments;
    } catch {
      // Links are an addition: without them the text stands as it was written.
      this.#failed = true;
    }
    const byMessage = Map.groupBy(found, (enrichment) => enrichment.message_id);
    for (const { id, version } of batch) this.#found.set(id, { version, list: byMessage.get(id) ?? [] });
    this.#timer = null;
    this.#onChange();
    if (this.#asked.size > 0) this.#timer = setTimeout(() => this.#read(), GATHER_MS);
  }
}
