/**
 * The list of a topic's messages: a bounded number of nodes over any number of messages.
 *
 * Pages are loaded before the reader reaches an end of what is there and let go at the far side; the `ScrollKeeper`
 * keeps the view still meanwhile. Everything that changes is drawn once per frame. New messages never move the view of
 * somebody who reads further up: they are counted on a button that leads to them.
 */

import { ScrollKeeper } from "./scroll.js";
import { createMessageNode, updateMessageNode } from "./message_node.js";
import { departureNode, dayNode, newLineNode } from "./line_nodes.js";
import { h, oncePerFrame, reconcile, replace } from "../dom.js";
import { icon } from "../icons.js";
import { rowsOf } from "./rows.js";

const LOAD_AHEAD_VIEWS = 1.5;
const FLASH_MS = 2400;

export class Timeline {
  #app;
  #model;
  #context;
  #list = h("div", { class: "timeline-list" });
  #top = h("div", { class: "timeline-end" });
  #bottom = h("div", { class: "timeline-end" });
  #keeper;
  #arrivedBelow = 0;
  #problem = null;
  #again = null;
  #closed = false;
  #stops;

  /**
   * `context` is what message nodes need; `onSeen(messageId)` is told when the newest message is before the reader's
   * eyes.
   */
  constructor({ app, model, context, pending, label, onSeen }) {
    this.#app = app;
    this.#model = model;
    this.#context = context;
    this.onSeen = onSeen;
    /** The last message seen before; a line is drawn after it. */
    this.newAfterId = null;
    this.scroller = h(
      "div",
      {
        class: "timeline",
        role: "log",
        "aria-live": "off",
        "aria-label": label,
        tabindex: "0",
        dataset: { testid: "timeline" },
      },
      this.#top,
      this.#list,
      pending,
      this.#bottom,
    );
    this.jump = h(
      "button",
      { type: "button", class: "jump", hidden: true, onClick: () => this.goToNewest() },
      icon("arrowDown"),
      h("span"),
    );
    this.jumpNew = h(
      "button",
      { type: "button", class: "jump jump-up", hidden: true, onClick: () => this.#goToNewLine() },
      icon("arrowUp"),
      "First unread",
    );
    this.element = h("div", { class: "timeline-frame" }, this.scroller, this.jumpNew, this.jump);
    this.#keeper = new ScrollKeeper(this.scroller, this.#list, pending);
    model.readerAt = () => this.#keeper.anchorNode?.dataset.messageId ?? null;
    this.drawSoon = oncePerFrame(() => this.#closed || this.draw());
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    const onVisibility = () => this.#visibilityChanged();
    document.addEventListener("visibilitychange", onVisibility);
    this.#stops = [
      model.onChange(this.drawSoon),
      model.onArrival((message) => this.#arrived(message)),
      () => document.removeEventListener("visibilitychange", onVisibility),
      () => this.#keeper.close(),
    ];
  }

  close() {
    this.#closed = true;
    for (const stop of this.#stops) stop();
  }

  async goToNewest() {
    if (this.#model.hasNewer) await this.#try(() => this.#model.openNewest());
    this.#arrivedBelow = 0;
    this.#keeper.following = true;
    this.draw();
    this.#keeper.toEnd();
    this.#look();
  }

  async goToOldest() {
    if (this.#model.hasOlder) await this.#try(() => this.#model.openOldest());
    this.#keeper.following = false;
    this.draw();
    this.#keeper.toStart();
  }

  /**
   * Shows one message in the upper part of the view, loading around it if it is not here; false if it is not in the
   * topic.
   */
  async goTo(messageId, { focus = true } = {}) {
    if (this.#model.get(messageId) === null) await this.#model.openAround(messageId);
    this.#keeper.following = false;
    this.draw();
    const node = this.nodeOf(messageId);
    if (node === null) return false;
    this.#keeper.toNode(node);
    node.classList.add("is-target");
    setTimeout(() => node.classList.remove("is-target"), FLASH_MS);
    if (focus) node.focus({ preventScroll: true });
    this.#look();
    return true;
  }

  nodeOf(messageId) {
    return this.#list.keyedNodes?.get(messageId) ?? null;
  }

  /** The message that has the focus, or whose article contains it; null if none. */
  get focusedId() {
    return document.activeElement?.closest?.("article[data-message-id]")?.dataset.messageId ?? null;
  }

  /** Moves the focus to the next (1) or previous (-1) message, starting from the view. */
  step(direction) {
    const at = this.focusedId === null ? null : this.nodeOf(this.focusedId);
    const articles = [...this.#list.querySelectorAll(":scope > article")];
    const next =
      at === null
        ? direction < 0
          ? articles.at(-1)
          : this.#keeper.anchorNode
        : articles[articles.indexOf(at) + direction];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
  }

  draw() {
    const rows = rowsOf(this.#model, { newAfterId: this.newAfterId, me: this.#app.prefs.get("name") });
    const hadFocus = this.#list.contains(document.activeElement);
    this.#model.following = this.#keeper.following;
    reconcile(
      this.#list,
      rows,
      (row) => row.key,
      (row) => this.#create(row),
      (node, row) => this.#update(node, row),
    );
    if (hadFocus && !this.#list.contains(document.activeElement)) this.scroller.focus({ preventScroll: true });
    this.#drawEnds();
    this.#keeper.hold();
    this.#drawJumps();
    this.#loadAhead();
    this.#look();
  }

  #create(row) {
    if (row.kind === "day") return dayNode(row);
    if (row.kind === "new") return newLineNode();
    if (row.kind === "departure") return departureNode(row, this.#app.store);
    return createMessageNode(row, this.#context);
  }

  #update(node, row) {
    if (row.kind === "message") updateMessageNode(node, row, this.#context);
    else if (row.kind === "departure") replace(node, ...departureNode(row, this.#app.store).childNodes);
    else if (row.kind === "day" && node.firstChild.textContent !== row.text) node.firstChild.textContent = row.text;
  }

  #drawEnds() {
    const model = this.#model;
    const isEmpty = model.messages.length === 0 && !model.isLoading("all");
    this.scroller.setAttribute("aria-busy", String(model.isLoading("all")));
    const start = isEmpty ? "No messages yet. Say the first word." : "The beginning of this topic";
    const isLoading = model.hasOlder || model.isLoading("all");
    drawEnd(this.#top, this.#problem ?? (isLoading ? "loading" : start));
    drawEnd(this.#bottom, model.hasNewer ? "loading" : "");
  }

  #drawJumps() {
    const isAway = this.#model.hasNewer || this.#keeper.pxBelow > this.#keeper.viewHeight / 2;
    const count = this.#arrivedBelow;
    this.jump.hidden = !(isAway || (count > 0 && !this.#keeper.following));
    this.jump.classList.toggle("jump-new", count > 0);
    this.jump.lastChild.textContent = count > 0 ? `${count} new ${count === 1 ? "message" : "messages"}` : "Newest";
    const line = this.#list.keyedNodes?.get("new");
    const isFurtherUp =
      this.newAfterId !== null && this.#model.hasOlder && this.#model.messages[0]?.id > this.newAfterId;
    this.jumpNew.hidden = line === undefined ? !isFurtherUp : !this.#keeper.isAboveView(line);
  }

  #scrolled() {
    this.#keeper.moved(!this.#model.hasNewer);
    this.#model.following = this.#keeper.following;
    if (this.#keeper.following) this.#arrivedBelow = 0;
    this.#drawJumps();
    this.#loadAhead();
    this.#look();
  }

  #arrived(message) {
    if (this.#keeper.following || message.sender === this.#app.prefs.get("name")) return;
    this.#arrivedBelow += 1;
  }

  #loadAhead() {
    const reach = this.#keeper.viewHeight * LOAD_AHEAD_VIEWS;
    if (this.#problem !== null) return;
    if (this.#keeper.pxAbove < reach && this.#model.hasOlder) void this.#try(() => this.#model.loadOlder());
    if (this.#keeper.pxBelow < reach && this.#model.hasNewer) void this.#try(() => this.#model.loadNewer());
  }

  /**
   * Tries to load; what goes wrong is shown at the top with a way to try again, and is tried again when the connection
   * is back.
   */
  async #try(work) {
    try {
      await work();
      this.#problem = null;
    } catch (error) {
      this.fail(error, this.drawSoon);
    }
  }

  /** Shows what went wrong until `again` is called, by the person or when the connection is back. */
  fail(error, again) {
    this.#again = again;
    const button = h("button", { type: "button", class: "link-button", onClick: () => this.retry() }, "Try again");
    this.#problem = h("span", { role: "alert" }, `${error.message}. `, button);
    this.drawSoon();
  }

  retry() {
    if (this.#problem === null) return;
    this.#problem = null;
    this.#again();
  }

  #look() {
    const newest = this.#model.messages.at(-1);
    const sees = this.#keeper.following && !this.#model.hasNewer && document.visibilityState === "visible";
    if (sees && newest !== undefined) this.onSeen(newest.id);
  }

  async #goToNewLine() {
    const line = () => this.#list.keyedNodes?.get("new");
    this.#keeper.following = false;
    if (line() === undefined) await this.#try(() => this.#model.openAround(this.newAfterId));
    this.draw();
    if (line() !== undefined) this.#keeper.toNode(line());
    this.#drawJumps();
  }

  /** What comes while nobody looks is marked as new when they look again. */
  #visibilityChanged() {
    const newest = this.#model.messages.at(-1)?.id ?? null;
    const isHidden = document.visibilityState === "hidden";
    if (isHidden && this.#keeper.following && !this.#model.hasNewer) this.newAfterId = newest;
    else if (!isHidden && this.newAfterId === newest) this.newAfterId = null;
    if (!isHidden) this.draw();
  }

  /** Marks what came after a message as new, if anything did. */
  markNewAfter(seenId) {
    const newest = this.#model.messages.at(-1)?.id ?? "";
    this.newAfterId = seenId !== null && newest > seenId ? seenId : null;
  }
}

/** Draws an end of the list if it shows something else: a node, a text, or a sign that more is coming. */
function drawEnd(place, content) {
  if (place.content === content) return;
  place.content = content;
  replace(
    place,
    content === "loading" ? h("span", { class: "spinner", role: "img", "aria-label": "Loading" }) : content,
  );
}
