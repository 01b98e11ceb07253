/**
 * A window onto the event log: the newest matching events, live, with older ones on demand.
 *
 * What came by HTTP and what comes by the feed meet at an event id, so nothing is missed and nothing doubles: the
 * answer says up to which event it is complete, and the feed's events count only beyond that. The window holds at most
 * `ROWS_MAX` rows. New events push out the oldest; older ones, when asked for, push out the newest, and the window then
 * rests until it is resumed. The log is read forwards only, so older events come as ranges of ids that end where the
 * window begins.
 */

import { Emitter } from "../emitter.js";

const ROWS_MAX = 1000;
const TAIL = 200;
const TAIL_FILTERED = 1000;
const ENOUGH_ROWS = 40;
const RANGE_IDS = 500;
const RANGES_MAX = 5;

export class EventWindow {
  #api;
  #changes = new Emitter();
  #turn = 0;
  #early = [];
  #floor = 0;

  constructor(api) {
    this.#api = api;
    this.#reset();
  }

  /** Called after something changed. */
  onChange(listener) {
    return this.#changes.on(listener);
  }

  /** How many events came while it rested. */
  get waitingCount() {
    return this.waiting.length + this.missed;
  }

  /** Begins anew with a filter: `{query, byPlace, narrow, passes(event)}`. The hub itself filters by the query. */
  async load(filter) {
    const turn = (this.#turn += 1);
    this.filter = filter;
    this.#reset();
    this.loading = true;
    this.#changes.emit();
    await this.#guarded(turn, async () => {
      const answer = await this.#api.get("/api/v1/events", {
        ...filter.query,
        tail: filter.narrow ? TAIL_FILTERED : TAIL,
      });
      if (turn !== this.#turn) return;
      const events = answer.events.map(fromAnswer);
      this.newest = answer.replay_until;
      this.oldest = events[0]?.event_id ?? answer.replay_until + 1;
      // Fewer than asked for are all there are; without a filter of the hub's, the ids tell whether some were archived.
      this.exhausted = filter.byPlace ? events.length < TAIL : this.oldest <= 1;
      this.rows = events.filter(filter.passes);
      if (filter.narrow && this.rows.length < ENOUGH_ROWS) await this.#readBack(turn);
    });
    if (turn !== this.#turn) return;
    this.loading = false;
    for (const event of this.#early.splice(0)) this.take(event);
    this.#changes.emit();
  }

  /** An event of the feed. */
  take(event) {
    if (this.loading) {
      this.#early.push(event);
      return;
    }
    if (event.event_id <= this.newest) return;
    this.newest = event.event_id;
    if (!this.filter.passes(event)) return;
    if (!this.paused) {
      this.rows.push(event);
      if (this.rows.length > ROWS_MAX) this.#dropOldest();
    } else if (this.waiting.length < ROWS_MAX) this.waiting.push(event);
    else this.missed += 1;
    this.#changes.emit();
  }

  pause() {
    this.paused = true;
    this.#changes.emit();
  }

  /** Goes on. Where the window was moved into the past, or too much waits, it begins again at the log's end. */
  resume() {
    if (this.moved || this.missed > 0) return this.load(this.filter);
    this.paused = false;
    this.rows.push(...this.waiting.splice(0));
    if (this.rows.length > ROWS_MAX) this.#dropOldest();
    this.#changes.emit();
    return Promise.resolve();
  }

  /** Loads older events in front of the window. */
  async readOlder() {
    if (this.reading || this.loading || this.exhausted) return;
    const turn = this.#turn;
    this.reading = true;
    this.#changes.emit();
    await this.#guarded(turn, () => this.#readBack(turn));
    if (turn !== this.#turn) return;
    this.reading = false;
    if (this.rows.length > ROWS_MAX) {
      this.rows.length = ROWS_MAX;
      this.moved = true;
      this.paused = true;
    }
    this.#changes.emit();
  }

  #reset() {
    Object.assign(this, { rows: [], waiting: [], missed: 0, newest: 0, oldest: 0, paused: false, moved: false });
    Object.assign(this, { loading: false, reading: false, exhausted: false, archive: null, error: null });
  }

  #dropOldest() {
    this.rows.splice(0, this.rows.length - ROWS_MAX);
    this.oldest = this.rows[0].event_id;
    this.exhausted = false;
  }

  /** Reads ranges of ids backwards, each twice as long as the last, until enough of it passes the filter. */
  async #readBack(turn) {
    let found = 0;
    let ids = RANGE_IDS;
    for (let range = 0; range < RANGES_MAX && found < ENOUGH_ROWS && !this.exhausted; range += 1, ids *= 2) {
      const after = Math.max(this.#floor, this.oldest - 1 - ids);
      const events = await this.#readRange(after, this.oldest);
      if (turn !== this.#turn) return;
      if (events === null) continue;
      const passing = events.filter(this.filter.passes);
      // Of a long range only what stands right before the window, so that it stays one stretch of the log.
      const taken = passing.slice(-RANGE_IDS);
      const isAll = taken.length === passing.length;
      this.rows.unshift(...taken);
      this.oldest = isAll ? after + 1 : taken[0].event_id;
      this.exhausted = isAll && after <= this.#floor;
      found += taken.length;
    }
  }

  /** All events between two ids, or null when the log turned out to begin later. */
  async #readRange(after, before) {
    const events = [];
    try {
      for (let cursor = after; ;) {
        const page = await this.#api.get("/api/v1/events", { ...this.filter.query, after: cursor, limit: RANGE_IDS });
        events.push(...page.events.filter((event) => event.event_id < before).map(fromAnswer));
        cursor = page.cursor;
        if (!page.has_more || cursor >= before) return events;
      }
    } catch (error) {
      if (error.code !== "CURSOR_EXPIRED") throw error;
      this.#floor = error.details.oldest_cursor;
      this.archive = error.details.archive;
      this.exhausted = this.oldest - 1 <= this.#floor;
      return null;
    }
  }

  async #guarded(turn, work) {
    this.error = null;
    try {
      await work();
    } catch (error) {
      if (turn === this.#turn) this.error = error;
    }
  }
}

function fromAnswer({ data_json: data, ...event }) {
  return { ...event, data };
}
