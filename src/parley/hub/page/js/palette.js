/**
 * The command palette: everything the page can do and every place it knows, by a few letters.
 *
 * A combobox over a listbox in a modal dialog. The field keeps the focus; arrows move the choice, Enter takes it,
 * Escape leaves. Commands come from `app.commands`, channels and topics from the store; whatever else was typed can be
 * searched for, and the id of a message leads to it.
 */

import { h, replace } from "./dom.js";
import { fuzzy } from "./fuzzy.js";
import { icon } from "./icons.js";
import { keysNodes, sequencesOf } from "./keys.js";
import { textNodes } from "./markdown/text.js";
import { channelHref, topicHref } from "./router.js";

const SHOWN_MAX = 40;
const PAGE_STEP = 8;
const RECENT_TOPICS = 6;
const CHANNELS_LOADED_MAX = 20;

/** What the palette offers when it is opened for one purpose. */
const PURPOSES = {
  all: {
    id: "palette.open",
    title: "Open the command palette",
    keys: "Mod+K",
    hint: "Type a command, a channel, a topic …",
  },
  topics: { id: "palette.topics", title: "Go to a topic", keys: "g t", hint: "Go to topic …" },
  channels: { id: "palette.channels", title: "Go to a channel", keys: "g c", hint: "Go to channel …" },
};

/** Adds the commands that open the palette; the answer takes them off again. */
export function install(app) {
  let palette = null;
  const close = () => palette?.close();
  const open = (purpose) => {
    close();
    palette = new Palette(app, purpose, () => (palette = null));
  };
  const stops = Object.entries(PURPOSES).map(([purpose, { id, title, keys }]) =>
    app.commands.add({ id, title, keys, run: () => open(purpose) }),
  );
  stops.push(close, app.router.onChange(close));
  return () => stops.forEach((stop) => stop());
}

class Palette {
  constructor(app, purpose, onClose) {
    this.app = app;
    this.purpose = purpose;
    this.opener = document.activeElement;
    this.entries = [];
    this.chosen = 0;
    this.list = h("ul", {
      class: "palette-list",
      role: "listbox",
      id: "palette-list",
      "aria-label": "Commands and places",
    });
    this.empty = h("p", { class: "palette-empty", role: "status" });
    this.field = h("input", {
      class: "palette-field",
      type: "text",
      role: "combobox",
      "aria-label": "Command, channel, topic or words to search for",
      "aria-expanded": "true",
      "aria-controls": "palette-list",
      "aria-autocomplete": "list",
      placeholder: PURPOSES[purpose].hint,
      autocomplete: "off",
      spellcheck: "false",
      onInput: () => this.show(),
      onKeydown: (event) => this.onKey(event),
    });
    const frame = h(
      "div",
      { class: "palette-frame" },
      h("div", { class: "palette-head" }, icon("search"), this.field),
      this.list,
      this.empty,
    );
    this.element = h("dialog", { class: "palette", "aria-label": "Command palette" }, frame);
    this.element.addEventListener("close", () => this.closed(onClose));
    this.element.addEventListener("pointerdown", (event) => event.target === this.element && this.close());
    document.body.append(this.element);
    this.element.showModal();
    this.field.focus();
    this.off = app.store.onChange(() => this.show());
    this.loadTopics();
    this.show();
  }

  close() {
    this.element.close();
  }

  closed(onClose) {
    this.off();
    this.element.remove();
    onClose();
  }

  /** Topics of channels that were never opened are not known yet. */
  loadTopics() {
    const { store } = this.app;
    const unknown = store.channelList.filter((channel) => !store.topicsLoaded(channel.id));
    for (const channel of unknown.slice(0, CHANNELS_LOADED_MAX)) store.loadTopics(channel.id).catch(() => {});
  }

  show() {
    const query = this.field.value.trim();
    const before = this.entries[this.chosen]?.id;
    this.entries = entriesFor(this.app, this.purpose, query);
    const again = query === this.query ? this.entries.findIndex((entry) => entry.id === before) : -1;
    this.query = query;
    this.chosen = Math.max(0, again);
    // A list that did not change stays: an option under a pressed mouse button must not be replaced.
    const shown = JSON.stringify(this.entries.map(({ id, name, places }) => [id, name, places]));
    if (shown === this.shown) return this.mark();
    this.shown = shown;
    replace(
      this.list,
      this.entries.map((entry, index) => this.option(entry, index)),
    );
    this.empty.textContent = this.entries.length === 0 ? "Nothing found" : "";
    this.mark();
  }

  option(entry, index) {
    return h(
      "li",
      {
        class: "palette-option",
        role: "option",
        id: `palette-option-${index}`,
        onPointermove: () => this.choose(index),
        onClick: () => this.take(index),
      },
      icon(entry.icon),
      h("span", { class: "palette-name", dir: "auto" }, lettersMarked(entry.name, entry.places)),
      entry.detail
        ? h(
            "span",
            { class: "palette-detail" },
            typeof entry.detail === "string" ? textNodes(entry.detail) : entry.detail,
          )
        : null,
    );
  }

  choose(index) {
    if (index === this.chosen) return;
    this.chosen = index;
    this.mark();
  }

  mark() {
    for (const [index, option] of [...this.list.children].entries()) {
      option.setAttribute("aria-selected", String(index === this.chosen));
    }
    const option = this.list.children[this.chosen];
    if (option) this.field.setAttribute("aria-activedescendant", option.id);
    else this.field.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  }

  onKey(event) {
    const { length } = this.entries;
    const steps = {
      ArrowDown: this.chosen + 1,
      ArrowUp: this.chosen - 1,
      PageDown: Math.min(this.chosen + PAGE_STEP, length - 1),
      PageUp: Math.max(this.chosen - PAGE_STEP, 0),
    };
    if (event.isComposing) return;
    if (event.key in steps && length > 0) this.choose((steps[event.key] + length) % length);
    else if (event.key === "Enter") this.take(this.chosen);
    else return;
    event.preventDefault();
  }

  take(index) {
    const entry = this.entries[index];
    if (!entry) return;
    this.close();
    // A command may act on what had the focus, such as a message.
    if (this.opener instanceof HTMLElement && this.opener.isConnected) this.opener.focus({ preventScroll: true });
    entry.run();
  }
}

function entriesFor(app, purpose, query) {
  const offered = {
    channels: () => app.store.channelList.map(channelEntry),
    topics: () => topicEntries(app),
    commands: () =>
      app.commands
        .all()
        .filter(({ id }) => id !== PURPOSES.all.id)
        .map(commandEntry),
  };
  if (purpose !== "all") return query === "" ? offered[purpose]().slice(0, SHOWN_MAX) : best(query, offered[purpose]());
  if (query === "") return [...offered.topics().slice(0, RECENT_TOPICS), ...offered.commands()];
  return [
    ...best(
      query,
      Object.values(offered).flatMap((list) => list()),
    ),
    ...typedEntries(app, query),
  ];
}

/** The entries whose names fit, the best first; equal ones in their order. */
function best(query, entries) {
  return entries
    .map((entry) => ({ ...entry, ...fuzzy(query, entry.name) }))
    .filter((entry) => entry.score !== undefined)
    .sort((a, b) => b.score - a.score)
    .slice(0, SHOWN_MAX);
}

function commandEntry({ id, title, keys, run }) {
  return { id, name: title, icon: "chevron", detail: keys ? keysNodes(sequencesOf({ keys })[0]) : null, run };
}

function channelEntry({ id, name }) {
  return { id, name, icon: "hash", detail: "Channel", run: () => follow(channelHref(id)) };
}

/** The topics that are known, the most recently changed first. */
function topicEntries({ store }) {
  const topics = [...store.topics.values()].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  return topics.map(({ id, title, channel_id: channel }) => {
    const detail = store.channels.get(channel)?.name ?? "Topic";
    return { id, name: title, icon: "events", detail, run: () => follow(topicHref(id)) };
  });
}

/** What can be done with the typed text itself. */
function typedEntries(app, query) {
  const entries = [];
  if (/^msg_[A-Za-z0-9_-]{1,60}$/.test(query)) {
    entries.push({
      id: "typed.message",
      name: `Go to message ${query}`,
      icon: "link",
      run: () => goToMessage(app, query),
    });
  }
  const search = () => app.router.go("/search", { query: { q: query } });
  entries.push({ id: "typed.search", name: `Search for “${query}”`, icon: "search", run: search });
  return entries;
}

async function goToMessage(app, id) {
  try {
    const { message } = await app.api.get(`/api/v1/messages/${encodeURIComponent(id)}`);
    follow(topicHref(message.topic_id, message.id));
  } catch (error) {
    app.announce(error.message);
    app.router.go("/search", { query: { q: id } });
  }
}

function follow(href) {
  location.hash = href;
}

/** The name with the letters that were found marked, neighbours together. */
function lettersMarked(name, places = []) {
  const wanted = new Set(places);
  const runs = [];
  for (const [index, letter] of [...name].entries()) {
    if (runs.length > 0 && runs.at(-1).found === wanted.has(index)) runs.at(-1).text += letter;
    else runs.push({ found: wanted.has(index), text: letter });
  }
  return runs.map(({ found, text }) =>
    found ? h("mark", { class: "palette-letter" }, textNodes(text)) : textNodes(text),
  );
}
