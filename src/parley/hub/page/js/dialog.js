/**
 * Modal dialogs on the browser's own `<dialog>`: the rest of the page is inert, Escape closes, the focus stays inside
 * and goes back to where it came from.
 */

import { errorNotice } from "./errors.js";
import { h, replace } from "./dom.js";
import { icon } from "./icons.js";

let counter = 0;

/**
 * Opens a dialog. `body` is a node or a list; `actions` are buttons for its foot. The answer has `close(result)`,
 * `element`, and `closed`, a promise of the result (undefined if the person backed out).
 */
export function open({ title, body, actions = [], wide = false, onSubmit = null }) {
  const opener = document.activeElement;
  const titleId = `dialog-title-${(counter += 1)}`;
  let result;
  let settle;
  const closed = new Promise((resolve) => (settle = resolve));
  const element = h(
    "dialog",
    { class: wide ? "dialog dialog-wide" : "dialog", "aria-labelledby": titleId },
    h(
      "form",
      { method: "dialog", class: "dialog-form", novalidate: true },
      h(
        "header",
        { class: "dialog-head" },
        h("h2", { id: titleId }, title),
        h(
          "button",
          { type: "button", class: "icon-button", "aria-label": "Close", onClick: () => close() },
          icon("close"),
        ),
      ),
      h("div", { class: "dialog-body" }, body),
      actions.length > 0 ? h("footer", { class: "dialog-foot" }, actions) : null,
    ),
  );
  const close = (value) => {
    result = value;
    element.close();
  };
  element.addEventListener("close", () => {
    // The browser gave the focus back when it closed the dialog; by now the person may be elsewhere already.
    const isLost = document.activeElement === document.body || element.contains(document.activeElement);
    element.remove();
    if (isLost && opener instanceof HTMLElement && opener.isConnected) opener.focus({ preventScroll: true });
    settle(result);
  });
  // What was typed must not be lost by a press beside the dialog; a press that ends there, as when selecting text,
  // means nothing.
  element.addEventListener(
    "pointerdown",
    (event) => event.target === element && onSubmit === null && actions.length === 0 && close(),
  );
  element.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    onSubmit?.();
  });
  document.body.append(element);
  element.showModal();
  (
    element.querySelector("[autofocus]") ?? element.querySelector(".dialog-body :is(input, textarea, select, button)")
  )?.focus();
  return { close, closed, element };
}

/** Asks yes or no; true only if the person pressed the named action. */
export async function confirm({ title, text, action, danger = false }) {
  const yes = h(
    "button",
    { type: "submit", class: `button ${danger ? "button-danger" : "button-primary"}`, autofocus: true },
    action,
  );
  const no = h("button", { type: "button", class: "button", onClick: () => opened.close(false) }, "Cancel");
  const opened = open({ title, body: h("p", null, text), actions: [no, yes], onSubmit: () => opened.close(true) });
  return (await opened.closed) === true;
}

/** Tells of a refusal. */
export async function tell({ title, error }) {
  const ok = h("button", { type: "submit", class: "button button-primary", autofocus: true }, "OK");
  const opened = open({ title, body: errorNotice(error), actions: [ok], onSubmit: () => opened.close() });
  await opened.closed;
}

/**
 * Asks for values. `fields` are `{name, label, value?, hint?, maxLength?, required?, multiline?}`; `save(values)` does
 * the work and may refuse with an error, which is shown with the values still there. Resolves to what `save` gave, or
 * undefined.
 */
export async function ask({ title, fields, action, save }) {
  const inputs = fields.map((field) => fieldNode(field));
  const problem = h("div");
  const submit = h("button", { type: "submit", class: "button button-primary" }, action);
  const cancel = h("button", { type: "button", class: "button", onClick: () => opened.close() }, "Cancel");
  const onSubmit = async () => {
    const missing = inputs.find((input) => input.required && input.control.value.trim() === "");
    for (const input of inputs) input.control.toggleAttribute("aria-invalid", false);
    if (missing !== undefined) {
      missing.control.setAttribute("aria-invalid", "true");
      return missing.control.focus();
    }
    submit.disabled = true;
    try {
      opened.close(await save(Object.fromEntries(inputs.map((input) => [input.name, input.control.value.trim()]))));
    } catch (error) {
      replace(problem, errorNotice(error));
      submit.disabled = false;
    }
  };
  const opened = open({
    title,
    body: [inputs.map((input) => input.node), problem],
    actions: [cancel, submit],
    onSubmit,
  });
  return opened.closed;
}

function fieldNode({ name, label, value = "", hint, maxLength, required = false, multiline = false }) {
  const id = `field-${(counter += 1)}`;
  const control = h(multiline ? "textarea" : "input", {
    id,
    class: "input",
    name,
    value,
    maxlength: maxLength,
    required,
    rows: multiline ? 3 : null,
    autocomplete: "off",
    "aria-describedby": hint ? `${id}-hint` : null,
  });
  const node = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    hint ? h("span", { class: "hint", id: `${id}-hint` }, hint) : null,
  );
  return { name, required, control, node };
}
