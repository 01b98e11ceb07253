/**
 * The formatting inside a block: bold, italic, strike, code, links.
 *
 * The result is a flat list of tokens whose opens and closes are always well nested, never a tree: what is drawn from
 * it needs no recursion, however deep an attacker nests. Every text token is a range of the source.
 *
 * Runs of `*`, `_` and `~` are paired as CommonMark pairs them, in one pass with a floor below which no partner is
 * looked for again. Three choices of our own: `__` is never bold, because `__init__` is a name here far more often; what
 * a plugin recognised as a reference (`literals`) is one word, inside which no character formats; and code that holds an
 * address and nothing else is a link, because agents like to put addresses in backticks.
 */

import { addressAt, destinationAt, safeUrl } from "./urls.js";

const SPECIAL = /[\\`*_~[\]<\n]|!\[|https?:\/\//gi;
const ANGLE = /<(https?:\/\/[^\s\u001c-\u001f\u0085<>]{1,2048})>/iy;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const PUNCTUATION = /[\p{P}\p{S}]/u;

/**
 * Tokens: `{type: "text" | "code", from, to}`, `{type: "break"}`, `{type: "open", tag, href?}`, `{type: "close"}`; tags
 * are strong, em, del and link. `lines` are ranges of `source`; `literals` are ranges in order, none overlapping
 * another.
 */
export function parseInline(source, lines, literals = []) {
  const scanner = new Scanner(source, lines, literals);
  scanner.scan();
  pairRuns(scanner.runs, 0);
  return scanner.finish();
}

class Scanner {
  constructor(source, lines, literals) {
    this.text = lines.map(({ from, to }) => source.slice(from, to)).join("\n");
    this.place = new Place(lines);
    this.literals = literals;
    this.literal = 0;
    this.ticks = tickRuns(this.text);
    this.at = 0;
    this.tokens = [];
    this.runs = [];
    this.brackets = [];
  }

  scan() {
    const { text } = this;
    while (this.at < text.length) {
      SPECIAL.lastIndex = this.at;
      const found = SPECIAL.exec(text);
      if (!found) break;
      this.take("text", this.at, found.index);
      this.at = found.index;
      const literal = text[this.at] === "\n" ? 0 : this.literalHere();
      if (literal) this.take("text", this.at, this.at + literal);
      else this.special(found[0]);
    }
    this.take("text", this.at, text.length);
  }

  /** Adds a token over a part of the text and goes on behind it. */
  take(type, from, to, more) {
    if (to > from) this.tokens.push({ type, from, to, ...more });
    this.at = to;
  }

  special(mark) {
    const { text, at } = this;
    if (mark === "\n") return this.take("break", at, at + 1);
    if (mark === "\\") return this.escape();
    if (mark === "`") return this.code();
    if (mark === "[" || mark === "![") return this.bracket(mark);
    if (mark === "]") return this.closeBracket();
    if (mark === "<") return this.angle();
    if (mark.length > 1) return this.address();
    let to = at + 1;
    while (text[to] === mark) to += 1;
    return this.run(mark, to);
  }

  escape() {
    const next = this.text[this.at + 1] ?? "";
    if (!ESCAPABLE.test(next)) return this.take("text", this.at, this.at + 1);
    return this.take("text", this.at + 1, this.at + 2);
  }

  code() {
    const { text, at } = this;
    let end = at;
    while (text[end] === "`") end += 1;
    const length = end - at;
    const close = this.ticks.next(length, end);
    if (close < 0) return this.take("text", at, end);
    let [from, to] = [end, close];
    const inside = text.slice(from, to);
    if (/^[ \n]/.test(inside) && /[ \n]$/.test(inside) && inside.trim() !== "") [from, to] = [from + 1, to - 1];
    const address = text.slice(from, to);
    const target = /^https?:/i.test(address) ? addressAt(address, 0, false) : null;
    if (target?.to === address.length) this.link(from, to, target.href, "code");
    else this.take("code", from, to);
    this.at = close + length;
  }

  bracket(mark) {
    this.take("text", this.at, this.at + mark.length);
    this.brackets.push({ token: this.tokens.at(-1), image: mark.length > 1, runs: this.runs.length });
  }

  closeBracket() {
    const { at } = this;
    const opener = this.brackets.pop();
    const target = opener && destinationAt(this.text, at + 1);
    if (!target) return this.take("text", at, at + 1);
    pairRuns(this.runs, opener.runs);
    this.runs.length = opener.runs;
    Object.assign(opener.token, { type: "open", tag: "link", href: target.href });
    this.take("close", at, target.to);
    // No link inside a link; but a picture, which becomes a link, may stand inside one, and then is its text.
    if (!opener.image) this.brackets.length = 0;
  }

  angle() {
    ANGLE.lastIndex = this.at;
    const found = ANGLE.exec(this.text);
    const href = found && safeUrl(found[1]);
    if (!href) return this.take("text", this.at, this.at + 1);
    this.link(this.at + 1, this.at + 1 + found[1].length, href);
    this.at += 1;
  }

  address() {
    const { text, at } = this;
    const target = WORD.test(text[at - 1] ?? "") ? null : addressAt(text, at, this.brackets.length > 0);
    if (!target) return this.take("text", at, at + 4);
    return this.link(at, target.to, target.href);
  }

  link(from, to, href, type = "text") {
    this.tokens.push({ type: "open", tag: "link", href });
    this.take(type, from, to);
    this.tokens.push({ type: "close" });
  }

  run(mark, to) {
    const { text, at } = this;
    const length = to - at;
    if ((mark === "_" && length !== 1) || (mark === "~" && length !== 2)) return this.take("text", at, to);
    const before = characterBefore(text, at);
    const after = characterAt(text, to);
    const opens = !isSpace(after) && (!PUNCTUATION.test(after) || isSpace(before) || PUNCTUATION.test(before));
    const closes = !isSpace(before) && (!PUNCTUATION.test(before) || isSpace(after) || PUNCTUATION.test(after));
    const whole = mark === "_";
    this.take("run", at, to, {
      mark,
      length,
      canOpen: opens && !(whole && closes && !PUNCTUATION.test(before)),
      canClose: closes && !(whole && opens && !PUNCTUATION.test(after)),
      opened: [],
      closed: [],
    });
    this.runs.push(this.tokens.at(-1));
  }

  /** How many characters from here on belong to a literal on this line. */
  literalHere() {
    const at = this.place.sourceOf(this.at);
    while (this.literal < this.literals.length && this.literals[this.literal].to <= at) this.literal += 1;
    const literal = this.literals[this.literal];
    if (!literal || literal.from > at) return 0;
    return Math.min(literal.to - at, this.place.lineEnd() - this.at);
  }

  /** The tokens with places in the source, neighbouring texts joined. */
  finish() {
    const place = this.place.again();
    const out = [];
    const text = (type, from, to) => {
      if (to === from) return;
      const begin = place.sourceOf(from);
      const last = out.at(-1);
      if (type === "text" && last?.type === "text" && last.to === begin) last.to = begin + to - from;
      else out.push({ type, from: begin, to: begin + to - from });
    };
    for (const token of this.tokens) {
      if (token.type === "text") text("text", token.from, token.to);
      else if (token.type === "code") codeLines(this.text, token, (from, to) => text("code", from, to), out);
      else if (token.type === "run") finishRun(token, text, out);
      else if (token.type === "open") out.push({ type: "open", tag: token.tag, href: token.href });
      else out.push({ type: token.type });
    }
    return out;
  }
}

function codeLines(text, { from, to }, add, out) {
  for (let begin = from; begin <= to;) {
    const found = text.indexOf("\n", begin);
    const end = found < 0 || found > to ? to : found;
    add(begin, end);
    if (end < to) out.push({ type: "break" });
    begin = end + 1;
  }
}

function finishRun(run, text, out) {
  for (let count = run.closed.length; count > 0; count -= 1) out.push({ type: "close" });
  text("text", run.from, run.to);
  for (const tag of run.opened.reverse()) out.push({ type: "open", tag });
}

/**
 * Pairs the runs from index `bottom` on: each pair takes one or two marks from both and says what it opens and closes.
 */
function pairRuns(runs, bottom) {
  const waiting = [];
  const floors = new Map();
  for (let index = bottom; index < runs.length; index += 1) {
    const closer = runs[index];
    const kind = `${closer.mark}${closer.canOpen}${closer.length % 3}`;
    while (closer.canClose && closer.to > closer.from) {
      const floor = floors.get(kind) ?? 0;
      let place = waiting.length - 1;
      while (place >= floor && !fits(waiting[place], closer)) place -= 1;
      if (place < floor) {
        floors.set(kind, waiting.length);
        break;
      }
      pair(waiting[place], closer);
      waiting.length = waiting[place].to > waiting[place].from ? place + 1 : place;
      for (const [key, value] of floors) floors.set(key, Math.min(value, waiting.length));
    }
    if (closer.canOpen && closer.to > closer.from) waiting.push(closer);
  }
}

function fits(opener, closer) {
  if (opener.mark !== closer.mark) return false;
  const either = opener.canClose || closer.canOpen;
  return !(either && (opener.length + closer.length) % 3 === 0 && (opener.length % 3 || closer.length % 3));
}

function pair(opener, closer) {
  const two = opener.to - opener.from >= 2 && closer.to - closer.from >= 2;
  const tag = opener.mark === "~" ? "del" : two ? "strong" : "em";
  opener.to -= two ? 2 : 1;
  closer.from += two ? 2 : 1;
  opener.opened.push(tag);
  closer.closed.push(tag);
}

/** For each length the next run of so many backticks, found in one pass. */
function tickRuns(text) {
  const byLength = new Map();
  for (const found of text.matchAll(/`+/g)) {
    const { length } = found[0];
    if (!byLength.has(length)) byLength.set(length, { places: [], next: 0 });
    byLength.get(length).places.push(found.index);
  }
  return {
    next(length, from) {
      const runs = byLength.get(length);
      while (runs && runs.next < runs.places.length && runs.places[runs.next] < from) runs.next += 1;
      return runs?.places[runs.next] ?? -1;
    },
  };
}

/** From places in the joined text to places in the source; asked in ascending order only. */
class Place {
  constructor(lines) {
    this.lines = lines;
    this.index = 0;
    this.start = 0;
  }

  again() {
    return new Place(this.lines);
  }

  sourceOf(at) {
    while (at > this.lineEnd()) {
      this.start = this.lineEnd() + 1;
      this.index += 1;
    }
    return this.lines[this.index].from + at - this.start;
  }

  lineEnd() {
    const { from, to } = this.lines[this.index];
    return this.start + to - from;
  }
}

function characterAt(text, at) {
  return at < text.length ? String.fromCodePoint(text.codePointAt(at)) : "";
}

function characterBefore(text, at) {
  if (at === 0) return "";
  const low = text.charCodeAt(at - 1);
  return characterAt(text, at > 1 && low >= 0xdc00 && low <= 0xdfff ? at - 2 : at - 1);
}

function isSpace(character) {
  return character === "" || /\s/u.test(character);
}
