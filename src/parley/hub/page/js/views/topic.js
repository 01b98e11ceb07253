/**
 * A topic: its messages, live; its attachments; and a place to write.
 *
 * This module wires the parts together: the model knows the messages, the timeline draws them, the composer hands what
 * is written to the outbox, and the feed keeps them all true.
 */

import { Enrichments } from "../topic/enrichments.js";
import { Quotes } from "../topic/quotes.js";
import { Timeline } from "../topic/timeline.js";
import { TopicModel } from "../topic/model.js";
import { createActions } from "../topic/actions.js";
import { createArrivalAnnouncer } from "../topic/arrivals.js";
import { createEditing } from "../topic/editing.js";
import { errorNotice } from "../errors.js";
import { h, replace } from "../dom.js";
import { mountAttachments } from "../topic/attachments.js";
import { mountComposer } from "../topic/composer.js";
import { mountHead } from "../topic/head.js";
import { mountPending } from "../topic/pending.js";
import { mountTaskBar } from "../topic/task_bar.js";
import { registerTopicCommands } from "../topic/commands.js";

const WIDE = window.matchMedia("(min-width: 1180px)");

export function mount(root, app, params) {
  let open = null;

  function show({ topic_id: topicId, message_id: messageId }) {
    if (open?.topicId === topicId) return void open.go(messageId);
    open?.close();
    open = new OpenTopic(root, app, topicId);
    if (app.takesFocus) open.focus();
    void open.begin(messageId);
  }

  show(params);
  return { update: show, unmount: () => open.close() };
}

class OpenTopic {
  #app;
  #view = h("div", { class: "topic" });
  #model;
  #quotes;
  #enrichments;
  #editing;
  #timeline;
  #composer;
  #pending;
  #attachments;
  #head;
  #taskBar;
  #closed = false;
  #stops;

  constructor(root, app, topicId) {
    this.#app = app;
    this.topicId = topicId;
    this.#model = new TopicModel(app.api, topicId);
    const actions = this.#makeMessages();
    this.#makeAround();
    this.#stops = [
      app.feed.onEvent((event) => this.#apply(event)),
      app.feed.onState((state) => state === "live" && this.#connectionIsBack()),
      app.outbox.onConfirmed((message) => message.topic_id === topicId && this.#model.take(message)),
      app.store.onChange(() => this.#model.departures.size > 0 && this.#timeline.drawSoon()),
      createArrivalAnnouncer(app, this.#model),
      registerTopicCommands(app, { timeline: this.#timeline, composer: this.#composer, actions, head: this.#head }),
    ];
    const middle = h(
      "div",
      { class: "topic-middle" },
      this.#taskBar.element,
      this.#timeline.element,
      this.#editing.element,
      this.#composer.element,
    );
    this.#view.append(this.#head.element, middle, this.#attachments.element);
    root.append(this.#view);
  }

  /** The messages, and what can be done with one. */
  #makeMessages() {
    const { topicId } = this;
    const [app, model] = [this.#app, this.#model];
    const drawSoon = () => this.#timeline.drawSoon();
    const get = (id) => model.get(id);
    const take = (message) => model.take(message);
    const goTo = (id) => this.#goTo(id);
    this.#quotes = new Quotes(app.api, drawSoon);
    this.#enrichments = new Enrichments(app.api, drawSoon);
    this.#editing = createEditing(app, topicId, { get, take, onChange: (id) => this.#editorChanged(id) });
    const reply = (message) => this.#composer.reply(message);
    const edit = (message) => this.#editing.start(message);
    const actions = createActions(app, { get, take, goTo, reply, edit });
    const context = {
      actions,
      enrichmentsOf: (message) => this.#enrichments.of(message),
      quoteOf: (id) => model.get(id) ?? this.#quotes.get(id),
      editorOf: (id) => this.#editing.editorOf(id),
    };
    this.#pending = mountPending(app, topicId, { onTakeBack: (text) => this.#composer.takeBack(text) });
    const onSeen = (id) => app.unread.markSeen(topicId, id);
    this.#timeline = new Timeline({ app, model, context, pending: this.#pending.element, label: "Messages", onSeen });
    return actions;
  }

  /** What stands around them: head, composer, attachments. */
  #makeAround() {
    const { topicId } = this;
    const app = this.#app;
    const goTo = (id) => this.#goTo(id);
    this.#composer = mountComposer(app, topicId, {
      title: "this topic",
      onSent: () => this.#timeline.goToNewest(),
      goTo,
    });
    this.#attachments = mountAttachments(app, topicId, {
      goTo,
      onClose: () => this.#setPanel(false),
      onCount: (count) => this.#attachmentsCounted(count),
    });
    this.#taskBar = mountTaskBar(app, topicId);
    this.#head = mountHead(app, topicId, {
      onTitle: (title) => {
        this.#timeline.scroller.setAttribute("aria-label", `Messages in ${title}`);
        this.#composer.setTitle(title);
      },
      onAttachments: () => this.#setPanel(this.#attachments.element.hidden),
      onOldest: () => this.#timeline.goToOldest(),
      onNewest: () => this.#timeline.goToNewest(),
    });
  }

  focus() {
    this.#timeline.scroller.focus({ preventScroll: true });
  }

  /** Loads the topic, at a message if one is given. */
  async begin(messageId) {
    try {
      await this.#app.store.topic(this.topicId);
      if (this.#closed) return;
      if (messageId === undefined) await this.#openNewest();
      else await this.go(messageId);
    } catch (error) {
      if (this.#closed || error.status === 401) return;
      if (error.status === 404) replace(this.#view, h("div", { class: "page" }, errorNotice(error)));
      else this.#timeline.fail(error, () => this.begin(messageId));
    }
  }

  /** Goes to a message, or to the newest ones. A message that was moved is followed to its topic. */
  async go(messageId) {
    if (messageId === undefined) return this.#timeline.goToNewest();
    try {
      const isHere = await this.#timeline.goTo(messageId, { focus: this.#app.takesFocus });
      if (!isHere && !this.#closed) await this.#follow(messageId);
    } catch (error) {
      if (this.#closed || error.status === 401) return;
      void this.#app.dialog.tell({ title: "This message cannot be shown", error });
      await this.#openNewest();
    }
  }

  close() {
    this.#closed = true;
    for (const stop of this.#stops) stop();
    for (const part of [this.#composer, this.#pending, this.#attachments, this.#head, this.#taskBar]) part.unmount();
    for (const part of [this.#model, this.#timeline, this.#enrichments]) part.close();
    this.#view.remove();
  }

  #goTo(messageId) {
    this.#app.router.go(`/t/${this.topicId}/m/${messageId}`);
  }

  async #follow(messageId) {
    const { message } = await this.#app.api.get(`/api/v1/messages/${messageId}`);
    if (message.topic_id !== this.topicId)
      this.#app.router.go(`/t/${message.topic_id}/m/${messageId}`, { replace: true });
  }

  async #openNewest() {
    await this.#model.openNewest();
    this.#timeline.markNewAfter(this.#app.unread.lastSeenAmong(this.topicId, this.#model.messages));
    await this.#timeline.goToNewest();
  }

  #apply(event) {
    for (const part of [this.#model, this.#quotes, this.#enrichments, this.#editing]) part.apply(event);
  }

  #connectionIsBack() {
    this.#timeline.retry();
    this.#enrichments.resume();
  }

  #editorChanged(messageId) {
    this.#timeline.draw();
    if (this.#editing.editorOf(messageId) === undefined)
      this.#timeline.nodeOf(messageId)?.focus({ preventScroll: true });
  }

  #attachmentsCounted(count) {
    this.#head.setAttachments(count, !this.#attachments.element.hidden);
    if (count > 0 && this.#app.prefs.get("attachments_open", true) && WIDE.matches)
      this.#setPanel(true, { remember: false });
  }

  #setPanel(isOpen, { remember = true } = {}) {
    this.#attachments.element.hidden = !isOpen;
    this.#view.classList.toggle("has-panel", isOpen);
    this.#head.setAttachments(null, isOpen);
    if (remember) this.#app.prefs.set("attachments_open", isOpen);
  }
}
