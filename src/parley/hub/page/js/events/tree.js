/**
 * A JSON value as a tree that opens branch by branch.
 *
 * Branches are built when they are opened, and long ones in portions, so a large payload costs nothing until someone
 * looks.
 */

import { copyText } from "../copy.js";
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { textNodes } from "../markdown/text.js";

const OPEN_DEPTH = 2;
const PORTION = 100;
const STRING_CHARS_MAX = 2000;

/** The tree of a payload, its first levels open, with a button that copies all of it. */
export function payloadTree(value) {
  const copy = h("button", { type: "button", class: "md-copy tree-copy", "aria-label": "Copy payload" }, icon("copy"));
  copy.addEventListener("click", () => copyText(JSON.stringify(value, null, 2), copy));
  return h("div", { class: "tree" }, copy, h("ul", { class: "tree-list" }, node(null, value, 0)));
}

function node(key, value, depth) {
  if (value === null || typeof value !== "object") return h("li", { class: "tree-leaf" }, keyNode(key), leaf(value));
  const entries = Array.isArray(value) ? value.map((item, index) => [index, item]) : Object.entries(value);
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0)
    return h("li", { class: "tree-leaf" }, keyNode(key), h("span", { class: "tree-mark" }, open + close));
  const count = `${entries.length} ${entries.length === 1 ? "entry" : "entries"}`;
  const list = h("ul", { class: "tree-list" });
  const summary = h("summary", null, keyNode(key), h("span", { class: "tree-mark" }, `${open} ${count} ${close}`));
  const details = h("details", { class: "tree-branch" }, summary, list);
  const fill = () => {
    if (details.open && list.childNodes.length === 0) addPortion(list, entries, 0, depth + 1);
  };
  details.addEventListener("toggle", fill);
  if (depth < OPEN_DEPTH) {
    details.open = true;
    fill();
  }
  return h("li", null, details);
}

function addPortion(list, entries, from, depth) {
  for (const [key, value] of entries.slice(from, from + PORTION)) list.append(node(key, value, depth));
  const rest = entries.length - from - PORTION;
  if (rest <= 0) return;
  const more = h("button", { type: "button", class: "link-button" }, `${rest} more`);
  const item = h("li", null, more);
  more.addEventListener("click", () => {
    item.remove();
    addPortion(list, entries, from + PORTION, depth);
  });
  list.append(item);
}

function keyNode(key) {
  return key === null ? null : [h("span", { class: "tree-key" }, textNodes(String(key))), ": "];
}

function leaf(value) {
  if (typeof value !== "string") return h("span", { class: "tree-value" }, String(value));
  const text = h("span", { class: "tree-string", dir: "auto" }, textNodes(value.slice(0, STRING_CHARS_MAX)));
  if (value.length <= STRING_CHARS_MAX) return text;
  const more = h(
    "button",
    { type: "button", class: "link-button" },
    `${value.length - STRING_CHARS_MAX} more characters`,
  );
  more.addEventListener("click", () => {
    text.replaceChildren(...textNodes(value));
    more.remove();
  });
  return [text, " ", more];
}
