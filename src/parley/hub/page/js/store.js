/**
 * The channels and topics that the page knows, kept true by the feed.
 *
 * Rows come by HTTP and from events in any order. A topic's `updated_at` is the time of the event that last touched it,
 * so the newer of two is known, and applying an event twice changes nothing. Topics come page by page, most recent
 * first; since a topic only ever moves to the front, paging by offset repeats some and misses none.
 */

import { Emitter } from "./emitter.js";
import { oncePerFrame } from "./dom.js";

export class Store {
  #api;
  #changes = new Emitter();
  #tell = oncePerFrame(() => this.#changes.emit());
  #pages = new Map();
  #fetching = new Map();
  /** Topics by channel and in order, until one of them changes. */
  #byChannel = null;

  constructor(api, session) {
    this.#api = api;
    this.session = session;
    this.channels = new Map();
    this.topics = new Map();
    this.loaded = false;
  }

  /** Called, at most once per frame, after something changed. */
  onChange(listener) {
    return this.#changes.on(listener);
  }

  /** Loads the channels. What events brought meanwhile stays. */
  async load() {
    const { channels } = await this.#api.get("/api/v1/channels");
    for (const channel of channels) this.channels.set(channel.id, channel);
    this.loaded = true;
    this.#tell();
  }

  get channelList() {
    return [...this.channels.values()].sort((a, b) => a.name.localeCompare(b.name));
  }

  /** The topics of a channel that are known, most recent first. */
  topicsOf(channelId) {
    if (this.#byChannel === null) {
      this.#byChannel = Map.groupBy(this.topics.values(), (topic) => topic.channel_id);
      for (const topics of this.#byChannel.values()) topics.sort(newerFirst);
    }
    return this.#byChannel.get(channelId) ?? [];
  }

  /** Whether more topics of a channel can be loaded; true before the first page. */
  hasMoreTopics(channelId) {
    return this.#pages.get(channelId)?.hasMore ?? true;
  }

  topicsLoaded(channelId) {
    return this.#pages.has(channelId);
  }

  /** Loads the next page of a channel's topics. Several callers at once share one request. */
  loadTopics(channelId) {
    return this.#once(`topics ${channelId}`, async () => {
      const page = this.#pages.get(channelId);
      if (page?.hasMore === false) return;
      const answer = await this.#api.get(`/api/v1/channels/${channelId}/topics`, { cursor: page?.cursor });
      for (const topic of answer.topics) this.#keep(topic);
      this.#pages.set(channelId, { cursor: answer.cursor, hasMore: answer.has_more });
      this.#tell();
    });
  }

  /** One topic, from the hub if it is not known. */
  async topic(topicId) {
    if (!this.topics.has(topicId)) {
      await this.#once(`topic ${topicId}`, async () => {
        this.#keep((await this.#api.get(`/api/v1/topics/${topicId}`)).topic);
        this.#tell();
      });
    }
    return this.topics.get(topicId);
  }

  /** Takes in a row that an answer brought. */
  keepTopic(topic) {
    this.#keep(topic);
    this.#tell();
  }

  keepChannel(channel) {
    this.channels.set(channel.id, channel);
    this.#tell();
  }

  /** Brings the state up to an event; once or twice is the same. */
  apply(event) {
    const { data, scope, ts } = event;
    if (event.name === "channel.created") this.keepChannel(data.channel);
    else if (event.name === "topic.created") this.keepTopic(data.topic);
    else if (event.name === "topic.renamed") this.#touch(data.topic_id, ts, { title: data.new_title });
    else if (event.name === "message.created") this.#touch(scope.topic_id, ts, lastMessage(data.message));
    else if (event.name === "message.moved_topic") {
      this.#touch(data.old_topic_id, ts, {});
      this.#touch(data.new_topic_id, ts, { last_message_id: data.message_id });
    }
  }

  #touch(topicId, ts, changes) {
    const known = this.topics.get(topicId);
    if (known === undefined) {
      // A topic that is not listed yet has just come to the front of its channel, where it must be seen. If it cannot
      // be read now, the next event of it tries again.
      this.topic(topicId).then(
        () => this.#touch(topicId, ts, changes),
        () => {},
      );
      return;
    }
    if (ts < known.updated_at) return;
    if ((changes.last_message_id ?? "") < (known.last_message_id ?? "")) changes = withoutLastMessage(changes);
    this.#set({ ...known, ...changes, updated_at: ts });
    this.#tell();
  }

  #keep(topic) {
    const known = this.topics.get(topic.id);
    if (known !== undefined && topic.updated_at < known.updated_at) return;
    this.#set({ ...known, ...topic });
  }

  #set(topic) {
    this.topics.set(topic.id, topic);
    this.#byChannel = null;
  }

  #once(name, work) {
    const running = this.#fetching.get(name);
    if (running !== undefined) return running;
    const promise = work().finally(() => this.#fetching.delete(name));
    this.#fetching.set(name, promise);
    return promise;
  }
}

function lastMessage(message) {
  return { last_message_id: message.id, last_message_at: message.created_at };
}

function withoutLastMessage({ last_message_id: _id, last_message_at: _at, ...rest }) {
  return rest;
}

function newerFirst(a, b) {
  if (a.updated_at !== b.updated_at) return a.updated_at < b.updated_at ? 1 : -1;
  return a.id < b.id ? 1 : -1;
}
