/** The topic's head: where it belongs, its title, and what can be done with it as a whole. */

import { channelHref } from "../router.js";
import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { renameTopic } from "../creating.js";

export function mountHead(app, topicId, { onTitle, onAttachments, onOldest, onNewest }) {
  const channel = h("a", { class: "topic-channel" });
  const title = h("h1", { class: "topic-heading" });
  const rename = button("pencil", "Rename topic", () => renameTopic(app, app.store.topics.get(topicId)));
  const count = h("span", { class: "attachment-count" });
  const attachments = h(
    "button",
    { type: "button", class: "button button-quiet", "aria-expanded": "false", onClick: onAttachments },
    icon("attachment"),
    h("span", { class: "wide-only" }, "Attachments"),
    count,
  );
  attachments.setAttribute("aria-label", "Attachments");
  const element = h(
    "header",
    { class: "topic-head" },
    h(
      "div",
      { class: "topic-names" },
      channel,
      h("span", { class: "topic-slash", "aria-hidden": "true" }, "/"),
      title,
      rename,
    ),
    h(
      "div",
      { class: "topic-tools" },
      button("arrowUp", "Jump to oldest", onOldest),
      button("arrowDown", "Jump to newest", onNewest),
      attachments,
    ),
  );
  let shown = "";

  function draw() {
    const topic = app.store.topics.get(topicId);
    rename.hidden = topic === undefined;
    if (topic === undefined) return;
    const parent = app.store.channels.get(topic.channel_id);
    const now = `${topic.title}\n${parent?.name ?? ""}`;
    if (now === shown) return;
    shown = now;
    title.textContent = topic.title;
    title.title = topic.title;
    channel.href = channelHref(topic.channel_id);
    replace(channel, parent?.name ?? "…");
    app.setTitle(topic.title);
    onTitle(topic.title);
  }

  const off = app.store.onChange(draw);
  draw();
  return {
    element,
    rename: () => rename.click(),
    toggleAttachments: onAttachments,
    /** A count of null leaves it as it is. */
    setAttachments(number, isOpen) {
      if (number !== null) count.textContent = number === 0 ? "" : String(number);
      attachments.setAttribute("aria-label", `Attachments${count.textContent === "" ? "" : ` (${count.textContent})`}`);
      attachments.setAttribute("aria-expanded", String(isOpen));
    },
    unmount: off,
  };
}

function button(iconName, label, onClick) {
  return h(
    "button",
    { type: "button", class: "icon-button", "aria-label": label, title: label, onClick },
    icon(iconName),
  );
}
