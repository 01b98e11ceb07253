/**
 * The event explorer: what the hub's log says, live.
 *
 * The newest events stand on top. While it is paused, events wait and are counted; nothing is lost and nothing comes
 * twice. Rows open to the whole payload. The filters stand in the address.
 */

import { h, reconcile, replace } from "../dom.js";
import { errorNotice } from "../errors.js";
import { createEventFilters, filterOf, readParams, writeParams } from "../events/filters.js";
import { createRate } from "../events/rate.js";
import { eventRow } from "../events/row.js";
import { EventWindow } from "../events/window.js";
import { throttle } from "../throttle.js";

const TYPING_MS = 250;
const DRAW_EVERY_MS = 120;

export function mount(root, app, params) {
  const view = new EventsView(app);
  root.append(view.element);
  app.setTitle("Events");
  view.update(params);
  return view;
}

class EventsView {
  constructor(app) {
    this.app = app;
    this.timer = null;
    this.window = new EventWindow(app.api);
    this.rate = createRate();
    this.filters = createEventFilters(app, (changes, how) => this.changed(changes, how));
    this.pause = h("button", { type: "button", class: "button", onClick: () => this.togglePause() });
    this.count = h("span", { class: "events-count" });
    this.notice = h("div");
    this.list = h("ol", { class: "events-list", "aria-label": "Events, newest first" });
    this.older = h(
      "button",
      { type: "button", class: "button", onClick: () => this.window.readOlder() },
      "Older events",
    );
    this.end = h("p", { class: "events-end" });
    this.element = h(
      "div",
      { class: "page events" },
      h(
        "div",
        { class: "page-head" },
        h("div", null, h("h1", null, "Events"), this.count),
        this.rate.element,
        this.pause,
      ),
      h(
        "details",
        { class: "events-filters", open: window.innerWidth >= 720 },
        h("summary", null, "Filters"),
        this.filters.element,
      ),
      this.notice,
      this.list,
      h("div", { class: "events-foot" }, this.older, this.end),
    );
    const draw = throttle(() => this.draw(), DRAW_EVERY_MS);
    this.stops = [
      this.window.onChange(draw),
      draw.cancel,
      app.store.onChange(() => this.filters.show(this.params)),
      app.feed.onEvent((event) => this.taken(event)),
      app.commands.add({
        id: "events.pause",
        title: "Pause or resume the events",
        keys: "p",
        run: () => this.togglePause(),
      }),
    ];
  }

  unmount() {
    clearTimeout(this.timer);
    this.rate.stop();
    for (const stop of this.stops) stop();
    this.element.remove();
  }

  /** The address changed. */
  update(params) {
    const before = JSON.stringify(this.params);
    this.params = readParams(params);
    this.filters.show(this.params);
    if (JSON.stringify(this.params) !== before) void this.window.load(filterOf(this.params));
  }

  changed(changes, { typing = false } = {}) {
    const params = { ...this.params, ...changes };
    clearTimeout(this.timer);
    const go = () => this.app.router.go("/events", { query: writeParams(params), replace: true });
    if (typing) this.timer = setTimeout(go, TYPING_MS);
    else go();
  }

  taken(event) {
    this.rate.count();
    this.window.take(event);
  }

  togglePause() {
    if (this.window.paused) void this.window.resume();
    else this.window.pause();
    this.app.announce(this.window.paused ? "Events paused" : "Events run again");
  }

  draw() {
    const { rows, paused, waitingCount, loading, reading, exhausted, archive, error } = this.window;
    reconcile(
      this.list,
      rows.toReversed(),
      (event) => event.event_id,
      (event) => eventRow(this.app, event),
    );
    this.pause.textContent = paused ? (waitingCount > 0 ? `Resume, ${waitingCount} waiting` : "Resume") : "Pause";
    this.pause.classList.toggle("button-primary", paused);
    this.count.textContent = loading ? "Loading …" : `${rows.length} shown, newest first`;
    this.older.hidden = exhausted || loading;
    this.older.disabled = reading;
    this.older.textContent = reading ? "Reading …" : "Older events";
    this.end.textContent = exhausted && rows.length > 0 ? endText(archive) : "";
    replace(this.notice, error ? errorNotice(error) : !loading && rows.length === 0 ? emptyNotice(exhausted) : null);
  }
}

function endText(archive) {
  return archive === null ? "This is the beginning of the log." : `What came before is in the archive ${archive}.`;
}

function emptyNotice(exhausted) {
  return h(
    "p",
    { class: "events-empty" },
    exhausted ? "No event matches." : "None of the newest events matches. Older ones may.",
  );
}
