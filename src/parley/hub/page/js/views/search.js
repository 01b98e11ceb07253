/**
 * The search: the address holds what is asked, the hub answers, hits are shown by topic.
 *
 * Every change goes through the address, so that back, forward, reload and a copied link show the same. The last word
 * counts as the beginning of a word while plain words are typed, so that hits come before the word is finished. What
 * the hub does not filter (sender, days) is filtered here, and further pages are then fetched by themselves until there
 * is enough to see.
 */

import { h, replace } from "../dom.js";
import { errorNotice } from "../errors.js";
import { termsOf, wordsOf } from "../highlight.js";
import { createFilters } from "../search/filters.js";
import { hitSections, moveThroughHits } from "../search/results.js";

const TYPING_MS = 180;
const PAGE_ROWS = 50;
const ENOUGH_ROWS = 15;
const PAGES_BY_ITSELF = 6;
const NOTHING = { q: "", channel: "", topic: "", sender: "", from: "", to: "" };
const PLAIN_WORDS = /^[\p{L}\p{N}\s]*[\p{L}\p{N}]{2}$/u;
const OPERATOR = /(?:^|\s)(?:AND|OR|NOT|NEAR)$/;

export function mount(root, app, params) {
  const view = new SearchView(app);
  root.append(view.element);
  app.setTitle("Search");
  view.update(params);
  if (!params.q) view.filters.field.focus({ preventScroll: true });
  return view;
}

class SearchView {
  constructor(app) {
    this.app = app;
    this.params = NOTHING;
    this.messages = [];
    this.asked = null;
    this.indexed = true;
    this.timer = null;
    this.filters = createFilters(app, (changes) => this.changed(changes));
    this.count = h("p", { class: "search-count", role: "status" });
    this.notice = h("div");
    this.hits = h("div", { class: "search-hits" });
    this.more = h(
      "button",
      { type: "button", class: "button", hidden: true, onClick: () => this.loadMore(1) },
      "Load more",
    );
    this.element = h(
      "div",
      { class: "page search", onKeydown: (event) => moveThroughHits(event, this.hits, this.filters.field) },
      h("h1", { class: "visually-hidden" }, "Search"),
      this.filters.element,
      this.count,
      this.notice,
      this.hits,
      h("div", { class: "search-more" }, this.more),
    );
    this.stops = [
      app.store.onChange(() => this.namesChanged()),
      app.commands.add({ id: "go.search", title: "Search messages", keys: "/", run: () => this.focusField() }),
    ];
  }

  unmount() {
    clearTimeout(this.timer);
    this.running?.abort();
    for (const stop of this.stops) stop();
    this.element.remove();
  }

  focusField() {
    this.filters.field.focus();
    this.filters.field.select();
  }

  /** The address changed. */
  update(params) {
    this.params = { ...NOTHING, ...params };
    this.filters.show(this.params);
    const asked = JSON.stringify([this.params.q.trim(), this.params.channel, this.params.topic]);
    if (asked === this.asked) return this.draw();
    this.asked = asked;
    return this.search();
  }

  /** The person changed something: into the address, after a pause while they type. */
  changed(changes) {
    this.params = { ...this.params, ...changes };
    clearTimeout(this.timer);
    const go = () => this.app.router.go("/search", { query: this.params, replace: true });
    if ("q" in changes || "sender" in changes) this.timer = setTimeout(go, TYPING_MS);
    else go();
  }

  async search() {
    this.running?.abort();
    this.running = new AbortController();
    this.messages = [];
    this.cursor = null;
    this.error = null;
    this.finished = false;
    const isIdle = this.params.q.trim() === "";
    this.element.setAttribute("aria-busy", String(!isIdle));
    if (isIdle) return this.draw();
    await this.loadMore(PAGES_BY_ITSELF);
  }

  /** Loads a page, and further ones while too few of the hits pass the filters of the page. */
  async loadMore(pagesMax) {
    const { signal } = this.running;
    this.more.disabled = true;
    try {
      for (let page = 0; page < pagesMax; page += 1) {
        const answer = await this.ask(signal);
        const known = new Set(this.messages.map(({ id }) => id));
        this.messages.push(...answer.messages.filter(({ id }) => !known.has(id)));
        this.indexed = answer.fts_used;
        this.cursor = answer.cursor;
        if (answer.cursor === null || this.passing().length >= ENOUGH_ROWS) break;
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      this.error = error;
    }
    if (signal.aborted) return;
    this.finished = true;
    this.more.disabled = false;
    this.element.setAttribute("aria-busy", "false");
    this.draw();
  }

  async ask(signal) {
    const { channel, topic } = this.params;
    const plain = this.params.q.trim();
    const query = beginning(plain);
    const rest = { channel, topic_id: topic, limit: PAGE_ROWS, cursor: this.cursor };
    const answer = await this.app.api.get("/api/v1/search", { query, ...rest }, { signal });
    // Without an index texts are compared as they are, the star included.
    if (answer.fts_used || query === plain) return answer;
    return this.app.api.get("/api/v1/search", { query: plain, ...rest }, { signal });
  }

  passing() {
    const { sender, from, to } = this.params;
    const name = sender.toLowerCase();
    const after = from === "" ? -Infinity : new Date(`${from}T00:00:00`).getTime();
    const before = to === "" ? Infinity : new Date(`${to}T24:00:00`).getTime();
    return this.messages.filter((message) => {
      const at = new Date(message.created_at).getTime();
      return message.sender.toLowerCase().includes(name) && at >= after && at < before;
    });
  }

  namesChanged() {
    this.filters.show(this.params);
    if (this.messages.some(({ topic_id: id }) => this.unnamed?.has(id) && this.app.store.topics.has(id))) this.draw();
  }

  draw() {
    const shown = this.passing();
    this.unnamed = new Set(shown.map(({ topic_id: id }) => id).filter((id) => !this.app.store.topics.has(id)));
    for (const id of this.unnamed) this.app.store.topic(id).catch(() => {});
    const query = this.params.q.trim();
    const terms = this.indexed ? termsOf(beginning(query)) : wordsOf(query);
    const focused = document.activeElement?.dataset?.messageId;
    replace(this.hits, hitSections(this.app, shown, terms, { whole: this.indexed }));
    if (focused) this.hits.querySelector(`[data-message-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    this.filters.suggestSenders([...new Set(this.messages.map(({ sender }) => sender))].sort());
    this.count.textContent = this.countText(shown.length);
    this.more.hidden = this.cursor === null || this.cursor === undefined;
    replace(this.notice, this.noticeNode(query, shown.length));
  }

  countText(shown) {
    if (!this.finished || this.error) return "";
    const more = this.cursor === null ? "" : "+";
    const hits = `${shown}${more} ${shown === 1 && more === "" ? "message" : "messages"}`;
    return shown === this.messages.length ? hits : `${hits} of ${this.messages.length} loaded`;
  }

  noticeNode(query, shown) {
    if (this.error) return errorNotice(this.error);
    if (query === "") return hints();
    if (!this.finished) return null;
    if (shown === 0) return h("p", { class: "search-empty" }, "No message matches. ", this.emptyHint());
    if (this.indexed) return null;
    return h(
      "p",
      { class: "notice" },
      "Without a full-text index: all words must occur in the text as they are written.",
    );
  }

  emptyHint() {
    if (this.messages.length > 0) return "Some were found, but the sender or the days do not fit.";
    if (this.params.channel || this.params.topic) return "Try without the channel or the topic.";
    return "Try fewer words, or the beginning of one with a star: deploy*";
  }
}

/** Plain words, the last of them taken as the beginning of a word. */
function beginning(query) {
  return PLAIN_WORDS.test(query) && !OPERATOR.test(query) ? `${query}*` : query;
}

function hints() {
  const examples = [
    ["deploy*", "words that begin so"],
    ['"race condition"', "words in this order"],
    ["lease NOT test", "the first without the second"],
    ["outbox OR spool", "one of both"],
  ];
  return h(
    "dl",
    { class: "search-hints" },
    examples.map(([query, meaning]) => [h("dt", null, h("code", null, query)), h("dd", null, meaning)]),
  );
}
