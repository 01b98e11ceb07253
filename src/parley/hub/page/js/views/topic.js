/**
 * A topic: its messages, live; its attachments; and a place to write.
 *
 * This module wires the parts together: the model knows the messages, the timeline draws them, the composer hands what is
 * written to the outbox, and the feed keeps them all true.
 */

import { Enrichments } from "../topic/enrichments.js";
import { Quotes } from "../topic/quotes.js";
import { Timeline } from "../topic/timeline.js";
import { TopicModel } from "../topic/model.js";
import { createActions } from "../topic/actions.js";
import { createArrivalAnnouncer } from "../topic/arrivals.js";
import { createEditor } from "../topic/editor.js";
import { errorNotice } from "../errors.js";
import { h, replace } from "../dom.js";
import { mountAttachments } from "../topic/attachments.js";
import { mountComposer } from "../topic/composer.js";
import { mountHead } from "../topic/head.js";
import { mountPending } from "../topic/pending.js";
import { registerTopicCommands } from "../topic/commands.js";

const WIDE = window.matchMedia("(min-width: 1180px)");

export function mount(root, app, params) {
  let open = null;

  function show({ topic_id: topicId, message_id: messageId }) {
    if (open?.topicId === topicId) return void open.go(messageId);
    open?.close();
    open = openTopic(root, app, topicId, messageId);
  }

  show(params);
  return { update: show, unmount: () => open.close() };
}

function openTopic(root, app, topicId, messageId) {
  const view = h("div", { class: "topic" });
  const editors = new Map();
  const model = new TopicModel(app.api, topicId);
  const drawSoon = () => timeline.drawSoon();
  const quotes = new Quotes(app.api, drawSoon);
  const enrichments = new Enrichments(app.api, drawSoon);
  let closed = false;

  const goTo = (id) => app.router.go(`/t/${topicId}/m/${id}`);
  const actions = createActions(app, { get: (id) => model.get(id), reply: (message) => composer.reply(message), edit, goTo, take: (message) => model.take(message) });
  const context = {
    actions,
    enrichmentsOf: (message) => enrichments.of(message),
    quoteOf: (id) => model.get(id) ?? quotes.get(id),
    editorOf: (id) => editors.get(id),
  };
  const composer = mountComposer(app, topicId, { title: "this topic", onSent: () => timeline.goToNewest(), goTo });
  const pending = mountPending(app, topicId, { onTakeBack: (text) => composer.takeBack(text) });
  const timeline = new Timeline({
    app,
    model,
    context,
    pending: pending.element,
    label: "Messages",
    onSeen: (id) => app.unread.markSeen(topicId, id),
  });
  const attachments = mountAttachments(app, topicId, {
    goTo,
    onClose: () => setPanel(false),
    onCount: (count) => {
      head.setAttachments(count, !attachments.element.hidden);
      if (count > 0 && app.prefs.get("attachments_open", true) && WIDE.matches) setPanel(true, { remember: false });
    },
  });
  const head = mountHead(app, topicId, {
    onTitle: (title) => {
      timeline.scroller.setAttribute("aria-label", `Messages in ${title}`);
      composer.setTitle(title);
    },
    onAttachments: () => setPanel(attachments.element.hidden),
    onOldest: () => timeline.goToOldest(),
    onNewest: () => timeline.goToNewest(),
  });

  function setPanel(isOpen, { remember = true } = {}) {
    attachments.element.hidden = !isOpen;
    view.classList.toggle("has-panel", isOpen);
    head.setAttachments(null, isOpen);
    if (remember) app.prefs.set("attachments_open", isOpen);
  }

  function edit(message) {
    if (message === null || message.deleted_at !== null || editors.has(message.id)) return;
    const editor = createEditor(app, message, {
      onDone: (changed) => {
        editors.delete(message.id);
        if (changed !== null) model.take(changed);
        timeline.draw();
        timeline.nodeOf(message.id)?.focus({ preventScroll: true });
      },
    });
    editors.set(message.id, editor);
    timeline.draw();
    editor.open();
  }

  function onEvent(event) {
    model.apply(event);
    quotes.apply(event);
    enrichments.apply(event);
    const edited = editors.size === 0 ? null : model.get(event.data.message_id ?? "");
    if (edited !== null) editors.get(edited.id)?.changedTo(edited);
  }

  /** Goes to a message, or to the newest ones. A message that was moved is followed to its topic. */
  async function go(id) {
    try {
      if (id === undefined) return await timeline.goToNewest();
      if (!(await timeline.goTo(id, { focus: app.takesFocus })) && !closed) {
        const { message } = await app.api.get(`/api/v1/messages/${id}`);
        if (message.topic_id !== topicId) app.router.go(`/t/${message.topic_id}/m/${id}`, { replace: true });
      }
    } catch (error) {
      if (closed || error.status === 401) return;
      app.dialog.tell({ title: "This message cannot be shown", error });
      await begin();
    }
  }

  async function begin() {
    await model.openNewest();
    timeline.markNewAfter(app.unread.lastSeenAmong(topicId, model.messages));
    await timeline.goToNewest();
  }

  async function start() {
    try {
      await app.store.topic(topicId);
      if (closed) return;
      if (messageId === undefined) await begin();
      else await go(messageId);
    } catch (error) {
      if (closed || error.status === 401) return;
      if (error.status === 404) replace(view, h("div", { class: "page" }, errorNotice(error)));
      else timeline.fail(error, start);
    }
  }

  const stops = [
    app.feed.onEvent(onEvent),
    app.feed.onState((state) => {
      if (state !== "live") return;
      timeline.retry();
      enrichments.resume();
    }),
    app.outbox.onConfirmed((message) => message.topic_id === topicId && model.take(message)),
    app.store.onChange(() => model.departures.length > 0 && drawSoon()),
    createArrivalAnnouncer(app, model),
    registerTopicCommands(app, { timeline, composer, actions, head }),
  ];
  view.append(head.element, h("div", { class: "topic-middle" }, timeline.element, composer.element), attachments.element);
  root.append(view);
  if (app.takesFocus) timeline.scroller.focus({ preventScroll: true });
  void start();
  return {
    topicId,
    go,
    close() {
      closed = true;
      for (const stop of stops) stop();
      for (const part of [composer, pending, attachments, head]) part.unmount();
      for (const part of [model, timeline, enrichments]) part.close();
      view.remove();
    },
  };
}
