/**
 * Marks found words in text nodes.
 *
 * A query is read as the index reads it: words without regard to case and accents, `word*` for beginnings, `"phrases"`,
 * and what follows NOT is not looked for. Matches are found in a folded copy of the text, with a map back to the
 * characters as they were written.
 */

import { h } from "./dom.js";

const TOKENS = /"((?:[^"]|"")*)"(\*?)|([\p{L}\p{N}_]+)(\*?)/gu;
const OPERATORS = new Set(["AND", "OR", "NOT", "NEAR"]);
const EXCERPT_CHARS = 260;

/** What a query looks for: `{text, prefix}` for each word or phrase. */
export function termsOf(query) {
  const terms = [];
  let skip = false;
  for (const [, phrase, phraseStar, word, wordStar] of query.matchAll(TOKENS)) {
    if (word !== undefined && OPERATORS.has(word)) {
      skip = word === "NOT";
      continue;
    }
    const text = fold(phrase ?? word).text.trim();
    if (text !== "" && !skip) terms.push({ text, prefix: (phraseStar || wordStar) === "*" });
    skip = false;
  }
  return terms;
}

/** The words of a query that is compared as it is written. */
export function wordsOf(query) {
  return query
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => ({ text: fold(word).text, prefix: false }));
}

/**
 * Where the terms are in a text: `{from, to}` in order. `whole` asks for whole words; else any part of a word will do.
 */
export function findTerms(text, terms, { whole = true } = {}) {
  if (terms.length === 0) return [];
  const folded = fold(text);
  const ranges = [];
  for (const found of folded.text.matchAll(patternOf(terms, whole))) {
    if (found[0] === "") continue;
    ranges.push({ from: folded.placeOf(found.index), to: folded.placeOf(found.index + found[0].length) });
  }
  return ranges;
}

/** Nodes for a text with its terms marked. */
export function highlighted(text, terms, options) {
  const nodes = [];
  let at = 0;
  for (const { from, to } of findTerms(text, terms, options)) {
    nodes.push(text.slice(at, from), h("mark", { class: "hit-mark" }, text.slice(from, to)));
    at = to;
  }
  nodes.push(text.slice(at));
  return nodes;
}

/** The part of a text around its first term, on one line. */
export function excerptOf(text, terms, options) {
  const line = text.replace(/\s+/g, " ").trim();
  if (line.length <= EXCERPT_CHARS) return line;
  const first = findTerms(line, terms, options)[0]?.from ?? 0;
  const wanted = Math.max(0, Math.min(first - EXCERPT_CHARS / 4, line.length - EXCERPT_CHARS));
  const from = wanted === 0 ? 0 : wordStart(line, wanted);
  const to = from + EXCERPT_CHARS >= line.length ? line.length : wordStart(line, from + EXCERPT_CHARS);
  return `${from > 0 ? "… " : ""}${line.slice(from, to).trim()}${to < line.length ? " …" : ""}`;
}

/** Goes on to the next word, unless none begins soon; never into the middle of a character. */
function wordStart(line, at) {
  const blank = line.indexOf(" ", at);
  if (blank >= 0 && blank - at < 24) return blank + 1;
  const isLow = line.charCodeAt(at) >= 0xdc00 && line.charCodeAt(at) <= 0xdfff;
  return isLow ? at + 1 : at;
}

function patternOf(terms, whole) {
  const parts = terms.map(({ text, prefix }) => {
    const words = text.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
    const body = words.length > 0 && whole ? words.join("[^\\p{L}\\p{N}]+") : escaped(text);
    if (!whole) return body;
    return `(?<![\\p{L}\\p{N}])${body}${prefix ? "[\\p{L}\\p{N}]*" : "(?![\\p{L}\\p{N}])"}`;
  });
  return new RegExp(parts.sort((a, b) => b.length - a.length).join("|"), "gu");
}

function escaped(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

/** The text without case and accents; `placeOf(i)` is where its character `i` stands in the text. */
function fold(text) {
  if (/^[\u0000-\u007f]*$/.test(text)) return { text: text.toLowerCase(), placeOf: (index) => index };
  let out = "";
  const places = [];
  let at = 0;
  for (const character of text) {
    const plain = character.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
    for (let index = 0; index < plain.length; index += 1) places.push(at);
    out += plain;
    at += character.length;
  }
  places.push(at);
  return { text: out, placeOf: (index) => places[index] };
}
