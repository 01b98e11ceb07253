/** The lines between messages: a new day, the beginning of what is new, and where messages left to. */

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { topicHref } from "../router.js";

export function dayNode({ text }) {
  return h("div", { class: "line line-day" }, h("span", null, text));
}

export function newLineNode() {
  return h("div", { class: "line line-new", dataset: { testid: "new-line" } }, h("span", null, "New"));
}

export function departureNode({ toTopicId, count }, store) {
  const title = store.topics.get(toTopicId)?.title ?? "another topic";
  return h(
    "div",
    { class: "departure", dataset: { testid: "departure" } },
    icon("move"),
    h(
      "span",
      null,
      `${count === 1 ? "1 message was" : `${count.toLocaleString()} messages were`} moved to `,
      h("a", { href: topicHref(toTopicId) }, title),
    ),
  );
}
