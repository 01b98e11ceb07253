/** Messages of this topic that are still on their way: pending, waiting for another try, or refused. */

import { avatar, senderName } from "../avatar.js";
import { errorNodes, sentence } from "../errors.js";
import { h, reconcile, replace } from "../dom.js";
import { render } from "../markdown.js";

const COUNTDOWN_MS = 1000;

/** `onTakeBack(text)` gets the text of a message that the person wants to change before it is sent again. */
export function mountPending(app, topicId, { onTakeBack }) {
  const element = h("div", { class: "pending-list" });
  let timer = null;

  function draw() {
    const entries = app.outbox.pendingIn(topicId);
    reconcile(element, entries, (entry) => entry.key, create, update);
    clearTimeout(timer);
    if (entries.some((entry) => entry.retryAt !== null)) timer = setTimeout(draw, COUNTDOWN_MS);
  }

  function create(entry) {
    const foot = h("div", { class: "pending-foot" });
    const node = h(
      "div",
      { class: "message is-pending", dataset: { testid: "pending" } },
      h("div", { class: "message-gutter" }, avatar(entry.sender)),
      h(
        "div",
        { class: "message-main" },
        h("div", { class: "message-head" }, senderName(entry.sender)),
        h("div", { class: "message-body" }, render(entry.content_raw)),
        foot,
      ),
    );
    node.foot = foot;
    update(node, entry);
    return node;
  }

  function update(node, entry) {
    node.classList.toggle("is-failed", entry.state === "failed");
    const seconds = entry.retryAt === null ? null : Math.max(1, Math.round((entry.retryAt - Date.now()) / 1000));
    const drawn = `${entry.state} ${entry.error?.message} ${seconds}`;
    if (node.drawnFoot === drawn) return;
    node.drawnFoot = drawn;
    const isRefused = entry.state === "failed";
    const again = button("Send now", () => app.outbox.retry(entry.key));
    // What only lost its answer may have arrived; taking it back would invite a second one. What was refused did not.
    const change = button("Edit", () => onTakeBack(app.outbox.discard(entry.key)));
    const drop = button("Discard", () => app.outbox.discard(entry.key));
    replace(
      node.foot,
      h("span", { role: isRefused ? "alert" : null }, saying(entry, seconds)),
      entry.state === "sending" ? null : again,
      isRefused ? [change, drop] : null,
    );
  }

  const off = app.outbox.onChange((changed) => changed === topicId && draw());
  draw();
  return {
    element,
    unmount() {
      off();
      clearTimeout(timer);
    },
  };
}

function button(text, onClick) {
  return h("button", { type: "button", class: "link-button", onClick }, text);
}

function saying(entry, seconds) {
  if (entry.state === "failed") return ["Not sent. ", ...errorNodes(entry.error)];
  if (entry.state === "sending") return "Sending…";
  return entry.error === null
    ? "Waiting to be sent"
    : `Not sent yet. ${sentence(entry.error.message)} Trying again in ${seconds} s.`;
}
