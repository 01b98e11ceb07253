/**
 * One topic's messages: loaded page by page, kept true by the feed.
 *
 * A page that is on its way may be older than events that overtake it, so events are written down while a page is
 * loading and applied to its rows when it comes. New messages beyond the end of the window are only counted. Messages
 * that are moved in belong somewhere in the middle, and there may be thousands, so the stretch in view is loaded again
 * around where the reader is.
 */

import { Emitter } from "../emitter.js";
import { MessageWindow } from "./window.js";
import { caughtUp, changeOf } from "./changes.js";

const RELOAD_AFTER_MS = 150;

export class TopicModel {
  #api;
  #window = new MessageWindow();
  #changes = new Emitter();
  #arrivals = new Emitter();
  #loading = new Map();
  #journal = [];
  #reloadTimer = null;
  #turn = 0;

  constructor(api, topicId) {
    this.#api = api;
    this.topicId = topicId;
    /** Whether the reader is at the end and wants to stay there; set by the timeline. */
    this.following = true;
    /** The message that the reader looks at; asked when a stretch must be loaded again. */
    this.readerAt = () => this.#window.newestId;
    /**
     * Where messages were moved to while the topic was open, by topic: `{key, toTopicId, count, beforeId}`. `beforeId`
     * is null at the end of the topic, and undefined as long as none of them was on the page.
     */
    this.departures = new Map();
  }

  get messages() {
    return this.#window.messages;
  }

  get hasOlder() {
    return this.#window.hasOlder;
  }

  get hasNewer() {
    return this.#window.hasNewer;
  }

  get(id) {
    return this.#window.get(id);
  }

  isLoading(side) {
    return this.#loading.has(side);
  }

  /** Called after the messages changed. */
  onChange(listener) {
    return this.#changes.on(listener);
  }

  /** Called with each message that was posted while the topic is open. */
  onArrival(listener) {
    return this.#arrivals.on(listener);
  }

  openNewest() {
    return this.#open(async () => {
      const page = await this.#page({});
      return { messages: page.messages, hasOlder: page.has_more, hasNewer: false };
    });
  }

  openOldest() {
    return this.#open(async () => {
      const page = await this.#page({ order: "oldest" });
      return { messages: page.messages, hasOlder: false, hasNewer: page.has_more };
    });
  }

  /** Opens around a message of any topic; it is among the rows only if it belongs to this one. */
  openAround(messageId) {
    return this.#open(async () => {
      const [middle, before, after] = await Promise.all([
        this.#api.get(`/api/v1/messages/${messageId}`),
        this.#page({ before_id: messageId }),
        this.#page({ after_id: messageId }),
      ]);
      const here = middle.message.topic_id === this.topicId ? [middle.message] : [];
      const messages = [...before.messages, ...here, ...after.messages];
      return { messages, hasOlder: before.has_more, hasNewer: after.has_more };
    });
  }

  loadOlder() {
    const from = this.#window.oldestId;
    if (from === null || !this.#window.hasOlder) return Promise.resolve();
    return this.#extend("older", { before_id: from }, (rows, more) => this.#window.addOlder(rows, more));
  }

  loadNewer() {
    const from = this.#window.newestId;
    if (from === null || !this.#window.hasNewer) return Promise.resolve();
    return this.#extend("newer", { after_id: from }, (rows, more) => this.#window.addNewer(rows, more));
  }

  /** Takes in what an answer of the hub brought: a message that was just posted or changed here. */
  take(message) {
    if (message.topic_id !== this.topicId) this.#window.remove(message.id);
    else this.#put(message);
    this.#changes.emit();
  }

  /** Brings the messages up to an event of the feed. */
  apply(event) {
    if (this.#loading.size > 0) this.#journal.push(event);
    if (event.name === "message.created" && event.data.message.topic_id === this.topicId)
      return this.#arrived(event.data.message);
    if (event.name === "message.moved_topic") return this.#moved(event.data);
    const change = changeOf(event);
    if (change !== null && this.#window.change(change.id, change.version, change.changes)) this.#changes.emit();
  }

  close() {
    this.#turn += 1;
    clearTimeout(this.#reloadTimer);
  }

  #arrived(message) {
    // What was read by HTTP or confirmed to the outbox may still come by the feed.
    if (this.#window.get(message.id) !== null) return;
    this.#put(message);
    this.#changes.emit();
    this.#arrivals.emit(message);
  }

  /** Puts a message into the window, which keeps its size: a follower lets go of the oldest, another of the newest. */
  #put(message) {
    this.#window.put(message);
    if (this.following) this.#window.trimOldest();
    else this.#window.trimNewest();
  }

  #moved({ message_id: id, old_topic_id: from, new_topic_id: to, version }) {
    if (to === this.topicId) return this.#reloadSoon();
    if (from !== this.topicId) return;
    const known = this.#window.get(id);
    const isShown = known !== null && known.version < version;
    const next = isShown ? (this.messages.find((message) => message.id > id)?.id ?? null) : undefined;
    if (isShown) this.#window.remove(id);
    this.#depart(id, next, to);
    if (isShown && this.messages.length === 0) this.#reloadSoon();
    this.#changes.emit();
  }

  /**
   * One notice per topic that messages went to, before the message that followed the last of them that was on the page.
   */
  #depart(id, beforeId, toTopicId) {
    const known = this.departures.get(toTopicId) ?? {
      key: `departure:${toTopicId}`,
      toTopicId,
      count: 0,
      beforeId: undefined,
    };
    this.departures.set(toTopicId, {
      ...known,
      count: known.count + 1,
      beforeId: beforeId === undefined ? known.beforeId : beforeId,
    });
    for (const one of this.departures.values()) if (one.beforeId === id) one.beforeId = beforeId;
  }

  #reloadSoon() {
    this.#reloadTimer ??= setTimeout(() => {
      this.#reloadTimer = null;
      const at = this.following ? null : this.readerAt();
      (at === null ? this.openNewest() : this.openAround(at)).catch(() => {});
    }, RELOAD_AFTER_MS);
  }

  /** Loads a stretch in place of the present one; a later call wins over an earlier one. */
  async #open(load) {
    const turn = (this.#turn += 1);
    await this.#load("all", async (events) => {
      const { messages, hasOlder, hasNewer } = await load();
      if (turn !== this.#turn) return;
      this.#window.reset(this.#rows(messages, events()), { hasOlder, hasNewer });
      this.#takeArrivals(events());
    });
  }

  async #extend(side, query, add) {
    if (this.#loading.has(side) || this.#loading.has("all")) return;
    const turn = this.#turn;
    await this.#load(side, async (events) => {
      const page = await this.#page(query);
      if (turn !== this.#turn) return;
      add(this.#rows(page.messages, events()), page.has_more);
      this.#takeArrivals(events());
    });
  }

  /** Runs a load with the journal of what happens meanwhile, and tells of its beginning and its end. */
  async #load(side, work) {
    const token = {};
    this.#loading.set(side, token);
    const begin = this.#journal.length;
    this.#changes.emit();
    try {
      await work(() => this.#journal.slice(begin));
    } finally {
      if (this.#loading.get(side) === token) this.#loading.delete(side);
      if (this.#loading.size === 0) this.#journal = [];
      this.#changes.emit();
    }
  }

  /** Rows as they are by now; those that left the topic meanwhile are left out. */
  #rows(messages, events) {
    return messages.map((message) => caughtUp(message, events)).filter((message) => message.topic_id === this.topicId);
  }

  /** Messages that were posted while a page was on its way; the window takes those that follow without a hole. */
  #takeArrivals(events) {
    const posted = events.filter((event) => event.name === "message.created").map((event) => event.data.message);
    for (const message of this.#rows(posted, events)) this.#put(message);
  }

  /** One page, oldest first. */
  async #page(query) {
    const page = await this.#api.get("/api/v1/messages", { topic_id: this.topicId, ...query });
    return { messages: page.messages.reverse(), has_more: page.has_more };
  }
}
