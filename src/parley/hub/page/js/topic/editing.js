/**
 * The messages that are being edited. An editor outlives the row it stands in: rows come and go as the reader scrolls,
 * and a message may be moved to another topic meanwhile. Then its editor waits above the composer, and saves as well
 * from there.
 */

import { createEditor } from "./editor.js";
import { h } from "../dom.js";
import { topicHref } from "../router.js";

/**
 * `get(id)` gives a message of the topic or null; `onChange(id)` is told when an editor opened or closed;
 * `take(message)` gets results.
 */
export function createEditing(app, topicId, { get, take, onChange }) {
  const editors = new Map();
  const strays = new Map();
  const element = h("div", { class: "strays" });

  function end(id, changed) {
    editors.delete(id);
    settle(id);
    if (changed !== null) take(changed);
    onChange(id);
  }

  function settle(id) {
    strays.get(id)?.remove();
    strays.delete(id);
  }

  function stray(id, editor, topicId) {
    settle(id);
    const link = h("a", { href: topicHref(topicId, id) }, app.store.topics.get(topicId)?.title ?? "another topic");
    const node = h(
      "section",
      { class: "stray", "aria-label": "Edit of a moved message" },
      h("p", null, "This message was moved to ", link, "."),
      editor.element,
    );
    strays.set(id, node);
    element.append(node);
  }

  return {
    element,
    editorOf: (id) => editors.get(id),
    start(message) {
      if (message === null || message.deleted_at !== null || editors.has(message.id)) return;
      const editor = createEditor(app, message, { onDone: (changed) => end(message.id, changed) });
      editors.set(message.id, editor);
      onChange(message.id);
      editor.open();
    },
    /** Called with each event, after the topic's messages were brought up to it. */
    apply(event) {
      const id = event.data.message_id;
      const editor = editors.get(id);
      if (editor === undefined) return;
      const message = get(id);
      if (event.name === "message.moved_topic" && event.data.new_topic_id !== topicId)
        stray(id, editor, event.data.new_topic_id);
      else if (event.name === "message.moved_topic") settle(id);
      if (message !== null) editor.changedTo(message);
    },
  };
}
