/** A difference as nodes: `<del>` and `<ins>`, which screen readers name, around plain text. */

import { diff } from "./diff.js";
import { h } from "./dom.js";

const TAGS = { same: "span", removed: "del", added: "ins" };

export function diffNodes(before, after) {
  return diff(before, after).map(({ kind, text }) => h(TAGS[kind], null, text));
}
