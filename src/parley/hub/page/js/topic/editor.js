/**
 * Editing a message in its place. The text was written for one version: if the message has another one by the time it
 * is saved, the person is shown both and decides.
 */

import { errorNotice } from "../errors.js";
import { fitHeight } from "./fit_height.js";
import { h, replace } from "../dom.js";
import { isSendKey } from "./enter_sends.js";
import { saveEdit } from "./conflict.js";
import { tidy } from "./tidy.js";

/** `onDone(message)` gets the message as it is now, or null if the person changed nothing. */
export function createEditor(app, message, { onDone }) {
  let base = message;
  const input = h("textarea", {
    class: "input editor-input",
    "aria-label": "Edit the message",
    value: message.content_raw,
    onInput: () => fitHeight(input),
    onKeydown: (event) => onKey(event),
  });
  const unchanged = input.value;
  const notice = h("div", { role: "status" });
  const save = h("button", { type: "submit", class: "button button-primary" }, "Save");
  const cancel = h("button", { type: "button", class: "button", onClick: () => onDone(null) }, "Cancel");
  const element = h(
    "form",
    { class: "editor", "aria-label": "Edit the message", onSubmit: (event) => (event.preventDefault(), submit()) },
    input,
    notice,
    h("div", { class: "editor-foot" }, save, cancel, h("span", { class: "composer-hint" }, "Escape cancels")),
  );

  function onKey(event) {
    if (event.key === "Escape") {
      event.stopPropagation();
      onDone(null);
    } else if (isSendKey(event, app.prefs)) {
      event.preventDefault();
      void submit();
    }
  }

  async function submit() {
    const content = tidy(input.value);
    if (content === "" || save.disabled) return;
    if (input.value === unchanged) return onDone(null);
    save.disabled = true;
    try {
      const saved = await saveEdit(app, base, content);
      if (saved !== null) return onDone(saved);
    } catch (error) {
      replace(notice, errorNotice(error));
    }
    save.disabled = false;
    input.focus();
  }

  return {
    element,
    open() {
      fitHeight(input);
      input.focus({ preventScroll: true });
      input.setSelectionRange(input.value.length, input.value.length);
    },
    /** The message was changed by someone else while it is being edited. */
    changedTo(now) {
      if (now.version <= base.version || now.content_raw === base.content_raw) {
        base = { ...now, content_raw: base.content_raw };
        return;
      }
      save.disabled = now.deleted_at !== null;
      const text =
        now.deleted_at !== null
          ? `${now.deleted_by} deleted this message meanwhile. Copy your text if you still need it.`
          : "Someone changed this message meanwhile. When you save, you will see both texts.";
      replace(notice, h("p", { class: "notice notice-warn" }, text));
    },
  };
}
