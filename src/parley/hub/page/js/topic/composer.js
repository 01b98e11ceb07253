/**
 * Where messages are written. The text grows with what is in it; the draft and whom it answers are kept per topic, for
 * all windows, until they are sent; sending hands over to the outbox and never waits.
 */

import { enterSends, isSendKey } from "./enter_sends.js";
import { h, replace } from "../dom.js";
import { headOf } from "./quote_node.js";
import { icon } from "../icons.js";
import { needName } from "../identity.js";
import { fitHeight } from "./fit_height.js";
import { throttle } from "../throttle.js";
import { tidy } from "./tidy.js";

const SAVE_EVERY_MS = 400;
const CONTENT_BYTES_MAX = 65_536;
const NO_DRAFT = { text: "", replyTo: null };

/** `onSent()` is told after a message was handed over; `goTo(id)` shows the message that is answered. */
export function mountComposer(app, topicId, { title, onSent, goTo }) {
  const { prefs, outbox } = app;
  const draftName = `draft:${topicId}`;
  const draft = prefs.get(draftName) ?? NO_DRAFT;
  let replyTo = draft.replyTo;
  let kept = JSON.stringify(draft);

  const chip = h("div", { class: "reply-chip", hidden: true });
  const input = h("textarea", {
    class: "composer-input",
    rows: "1",
    "aria-label": `Message in ${title}`,
    placeholder: "Write a message",
    value: draft.text,
    onInput: () => changed(),
    onKeydown: (event) => onKey(event),
  });
  const problem = h("span", { class: "composer-problem", role: "alert" });
  const hint = h("span", { class: "composer-hint" });
  const setting = h("input", {
    type: "checkbox",
    onChange: () => {
      prefs.set("enter_sends", setting.checked);
      draw();
    },
  });
  const send = h(
    "button",
    { type: "submit", class: "button button-primary composer-send", "aria-label": "Send" },
    icon("send"),
  );
  const element = h(
    "form",
    { class: "composer", "aria-label": "New message", onSubmit: (event) => (event.preventDefault(), submit()) },
    chip,
    h("div", { class: "composer-box" }, input, send),
    h(
      "div",
      { class: "composer-foot" },
      problem,
      hint,
      h("label", { class: "composer-setting" }, setting, "Enter sends"),
    ),
  );

  const saveSoon = throttle(save, SAVE_EVERY_MS);

  function save() {
    const now = { text: input.value, replyTo };
    if (JSON.stringify(now) === kept) return;
    kept = JSON.stringify(now);
    if (now.text === "" && replyTo === null) prefs.remove(draftName);
    else prefs.set(draftName, now);
  }

  /** The draft was changed in another window; what is being written here goes on. */
  function follow() {
    const now = prefs.get(draftName) ?? NO_DRAFT;
    if (JSON.stringify({ text: input.value, replyTo }) !== kept || JSON.stringify(now) === kept) return;
    kept = JSON.stringify(now);
    replyTo = now.replyTo;
    input.value = now.text;
    fitHeight(input);
    draw();
  }

  function changed() {
    fitHeight(input);
    draw();
    saveSoon();
  }

  function draw() {
    const isEmpty = input.value.trim() === "";
    const bytes = input.value.length * 3 > CONTENT_BYTES_MAX ? new TextEncoder().encode(input.value).length : 0;
    const isTooLong = bytes > CONTENT_BYTES_MAX;
    problem.textContent = isTooLong ? `Too long by ${bytes - CONTENT_BYTES_MAX} bytes` : "";
    send.disabled = isEmpty || isTooLong;
    setting.checked = enterSends(prefs);
    hint.textContent = setting.checked
      ? "Shift+Enter for a new line"
      : `${/Mac/.test(navigator.platform) ? "⌘" : "Ctrl"}+Enter sends`;
    chip.hidden = replyTo === null;
    if (replyTo !== null) replace(chip, ...chipContent());
  }

  function chipContent() {
    return [
      icon("reply"),
      h(
        "button",
        { type: "button", class: "reply-chip-text", onClick: () => goTo(replyTo.id) },
        `Replying to ${replyTo.sender}: ${replyTo.head}`,
      ),
      h(
        "button",
        { type: "button", class: "icon-button", "aria-label": "Do not reply", onClick: () => setReply(null) },
        icon("close"),
      ),
    ];
  }

  function setReply(message) {
    replyTo = message === null ? null : { id: message.id, sender: message.sender, head: headOf(message.content_raw) };
    draw();
    saveSoon();
    input.focus();
  }

  function onKey(event) {
    if (event.key === "Escape" && replyTo !== null) setReply(null);
    if (!isSendKey(event, prefs)) return;
    event.preventDefault();
    void submit();
  }

  async function submit() {
    const content = tidy(input.value);
    if (send.disabled || content === "") return;
    const sender = await needName(app);
    if (sender === null) return;
    const answered = replyTo?.id ?? null;
    replyTo = null;
    input.value = "";
    fitHeight(input);
    draw();
    saveSoon.cancel();
    save();
    outbox.send({ topicId, sender, content, replyTo: answered });
    input.focus();
    onSent();
  }

  window.addEventListener("pagehide", save);
  const offPrefs = prefs.onChange((name) => name === draftName && follow());
  draw();
  requestAnimationFrame(() => fitHeight(input));
  return {
    element,
    reply: setReply,
    focus: () => input.focus(),
    /** Puts a text back, before what is being written. */
    takeBack(text) {
      input.value = input.value === "" ? text : `${text}\n${input.value}`;
      changed();
      input.focus();
    },
    setTitle(text) {
      input.setAttribute("aria-label", `Message in ${text}`);
    },
    unmount() {
      offPrefs();
      window.removeEventListener("pagehide", save);
      saveSoon.cancel();
      save();
    },
  };
}
