/**
 * The live feed of events: each event once, in order, over any number of connections.
 *
 *     connecting ─► catching-up ─► live ─► lost ─► (wait) ─► connecting ...
 *                                           └─► logged-out, or gone when the hub does not answer here any more
 *
 * The cursor is the last event that was passed on; a new connection asks for what follows it, and whatever comes twice
 * is dropped. A failed WebSocket does not tell why, so the feed then asks over HTTP: is there a hub, is it ours, does
 * it know us? When the log cannot be continued from the cursor (archived, or restored from a backup) the feed ends and
 * tells the listeners of `onReset`, who begin anew.
 */

import { Emitter } from "./emitter.js";

const FIRST_WAIT_MS = 500;
const WAIT_MAX_MS = 15_000;
const FAILURES_UNTIL_GONE = 5;
const CLOSED_FOR_GOOD = { 4401: "logged-out" };
const CURSOR_EXPIRED = 4410;

export class Feed {
  #api;
  #socket = null;
  #timer = null;
  #failures = 0;
  #until = 0;
  #stopped = true;
  #events = new Emitter();
  #states = new Emitter();
  #resets = new Emitter();

  constructor(api) {
    this.#api = api;
    this.state = "connecting";
    this.cursor = 0;
    this.dbId = null;
    /** Why the feed is lost or gone: "network", "another-hub" or "". */
    this.reason = "";
    window.addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.retryNow());
  }

  /** Called with each event: `{event_id, ts, name, scope, entity, data}`. The answer stops it. */
  onEvent(listener) {
    return this.#events.on(listener);
  }

  /** Called with each new state. */
  onState(listener) {
    return this.#states.on(listener);
  }

  /** Called when the log cannot be continued: the feed has stopped, and everything must be loaded again. */
  onReset(listener) {
    return this.#resets.on(listener);
  }

  /** Starts after an event of a database. */
  start({ dbId, cursor }) {
    this.dbId = dbId;
    this.cursor = cursor;
    this.#stopped = false;
    this.#connect();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#socket?.close(1000);
    this.#socket = null;
  }

  /** Tries at once instead of after the wait, if a wait is under way. */
  retryNow() {
    if (this.#timer === null) return;
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#connect();
  }

  #connect() {
    this.#timer = null;
    if (this.state !== "lost" && this.state !== "gone") this.#become("connecting");
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws`);
    this.#socket = socket;
    socket.onopen = () => socket.send(JSON.stringify({ type: "hello", after_event_id: this.cursor }));
    socket.onmessage = (message) => socket === this.#socket && this.#received(JSON.parse(message.data));
    socket.onclose = (close) => socket === this.#socket && this.#closed(close.code);
  }

  #received(frame) {
    if (frame.type === "hello_ok") this.#welcomed(frame);
    else if (frame.type === "event") this.#passOn(frame);
  }

  #welcomed(frame) {
    this.#failures = 0;
    this.reason = "";
    if (frame.reset === true) return this.#reset();
    this.#until = frame.replay_until;
    this.#become(this.#until > this.cursor ? "catching-up" : "live");
  }

  #passOn(event) {
    if (event.event_id <= this.cursor) return;
    this.cursor = event.event_id;
    this.#events.emit(event);
    if (this.state === "catching-up" && this.cursor >= this.#until) this.#become("live");
  }

  #closed(code) {
    this.#socket = null;
    if (this.#stopped) return;
    if (CLOSED_FOR_GOOD[code] !== undefined) return this.#end(CLOSED_FOR_GOOD[code]);
    if (code === CURSOR_EXPIRED) return this.#reset();
    this.#lookWhy();
  }

  /**
   * The connection is lost, or never came to be: finds out whether to wait, to log in, or to give up on this address.
   */
  async #lookWhy() {
    const wasThere = this.state === "live" || this.state === "catching-up";
    if (this.state !== "gone") this.#become("lost");
    this.#failures += 1;
    if (!wasThere) {
      const found = await this.#look();
      if (this.#stopped) return;
      if (found === "logged-out") return this.#end("logged-out");
      this.reason = found;
      if (found === "another-hub" || (found === "network" && this.#failures >= FAILURES_UNTIL_GONE))
        this.#become("gone");
    }
    const most = Math.min(FIRST_WAIT_MS * 2 ** (this.#failures - 1), WAIT_MAX_MS);
    this.#timer = setTimeout(() => this.#connect(), most * (0.5 + Math.random() / 2));
  }

  async #look() {
    try {
      const once = { tries: 1 };
      const health = await this.#api.get("/health", {}, once);
      if (health?.db_id !== this.dbId) return "another-hub";
      await this.#api.get("/api/v1/ui/session", {}, once);
      return "";
    } catch (error) {
      if (error.status === 401) return "logged-out";
      return error.status === 0 ? "network" : "";
    }
  }

  #reset() {
    this.stop();
    this.#resets.emit();
  }

  #end(state) {
    this.stop();
    this.#become(state);
  }

  #become(state) {
    if (state === this.state) return;
    this.state = state;
    this.#states.emit(state);
  }
}
