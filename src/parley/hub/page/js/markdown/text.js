/**
 * Text as it is, with what the eye would miss made visible.
 *
 * Controls that reorder text ("Trojan source"), invisible characters in which instructions for a model can be hidden,
 * and other controls are drawn as small labels in place of themselves, so that a message shows what it really says.
 * Joiners and variation selectors stay: emoji and several scripts need them.
 *
 * Words of thousands of letters get places to break. Without them the browser shapes the rest of the word again for
 * each line, which stops the page for seconds.
 */

import { h } from "../dom.js";

const CHARACTERS = [
  "\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f", // controls
  "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069", // directions
  "\\u00ad\\u180e\\u200b\\u2028\\u2029\\u2060-\\u2065\\ufeff", // breaks and blanks of no width
  "\\u206a-\\u206f\\ufff9-\\ufffb", // old format characters
  "\\u{e0000}-\\u{e007f}", // tags
];
const HIDDEN = new RegExp(`([${CHARACTERS.join("")}])\\1*`, "gu");

const NAMES = new Map([
  [0x200e, "LRM"],
  [0x200f, "RLM"],
  [0x061c, "ALM"],
  [0x202a, "LRE"],
  [0x202b, "RLE"],
  [0x202c, "PDF"],
  [0x202d, "LRO"],
  [0x202e, "RLO"],
  [0x2066, "LRI"],
  [0x2067, "RLI"],
  [0x2068, "FSI"],
  [0x2069, "PDI"],
  [0x200b, "ZWSP"],
  [0xfeff, "BOM"],
]);

const WORD_CHARS_MAX = 1000;
const PIECE_CHARS = 500;

/** Nodes for a text: text nodes, places to break very long words, and a label for each run of one hidden character. */
export function textNodes(text) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) nodes.push(...breakable(text.slice(from, found.index)));
    nodes.push(label(found[1], found[0].length / found[1].length));
    from = found.index + found[0].length;
  }
  if (from < text.length) nodes.push(...breakable(text.slice(from)));
  return nodes;
}

/** A text in pieces, none of which ends inside what a reader takes for one character. */
function breakable(text) {
  const nodes = [];
  let from = 0;
  for (const { 0: word, index } of text.length > WORD_CHARS_MAX ? text.matchAll(/\S+/g) : []) {
    if (word.length <= WORD_CHARS_MAX) continue;
    for (const { index: at } of new Intl.Segmenter().segment(word)) {
      if (index + at - from < PIECE_CHARS || at === 0) continue;
      nodes.push(document.createTextNode(text.slice(from, index + at)), h("wbr"));
      from = index + at;
    }
  }
  nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

function label(character, count) {
  const point = character.codePointAt(0);
  const number = `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  const name = NAMES.get(point) ?? number;
  const title = `Hidden character ${number}${count > 1 ? `, ${count} times` : ""}`;
  return h(
    "span",
    { class: "md-hidden", title, dataset: { codePoint: number } },
    count > 1 ? `${name}×${count}` : name,
  );
}
