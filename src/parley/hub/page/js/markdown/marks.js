/**
 * What plugins found in a message, laid over its text.
 *
 * Plugins count in Unicode code points of the raw text, the browser in UTF-16 units; the one walk over the text that
 * translates them is here. Findings that lead somewhere (`link`, `url`, `file_path`, `code_ref`, `message`) are
 * references: where two overlap, the one that begins first, or else the longer, is kept. All other kinds are notes,
 * which may overlap.
 */

import { safeUrl } from "./urls.js";

const LINK_KINDS = new Set(["link", "url"]);
const MESSAGE_KINDS = new Set(["message", "message_ref"]);
const NOTES_MAX = 8;
const NOTE_CHARS_MAX = 600;

/** The findings of one message: `literals` for the parser, `parts(from, to)` for whoever draws. */
export class Marks {
  constructor(source, enrichments = []) {
    const spans = inUnits(source, enrichments.filter(hasSpan));
    const found = spans.map((span) => ({ ...span, reference: referenceOf(span.enrichment) }));
    this.literals = withoutOverlap(found.filter((span) => span.reference));
    this.intervals = intervalsOf(
      this.literals,
      found.filter((span) => !span.reference),
    );
  }

  /** Cuts a range of the source at the borders of what was found in it: `{from, to, reference, notes}` in order. */
  parts(from, to) {
    const parts = [];
    let at = from;
    for (let index = this.#firstAfter(from); index < this.intervals.length && at < to; index += 1) {
      const interval = this.intervals[index];
      if (interval.from >= to) break;
      if (interval.from > at) parts.push({ from: at, to: interval.from, reference: null, notes: [] });
      const begin = Math.max(at, interval.from);
      at = Math.min(to, interval.to);
      parts.push({ ...interval, from: begin, to: at });
    }
    if (at < to) parts.push({ from: at, to, reference: null, notes: [] });
    return parts;
  }

  #firstAfter(at) {
    let [low, high] = [0, this.intervals.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.intervals[middle].to <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function hasSpan({ span }) {
  return Number.isInteger(span?.start) && Number.isInteger(span?.end) && span.start >= 0 && span.start < span.end;
}

/** The spans in UTF-16 units, by one walk over the text; those that reach beyond its end are dropped. */
function inUnits(source, enrichments) {
  const wanted = [...new Set(enrichments.flatMap(({ span }) => [span.start, span.end]))].sort((a, b) => a - b);
  const units = new Map();
  let [points, at] = [0, 0];
  for (const place of wanted) {
    while (points < place && at < source.length) {
      at += source.codePointAt(at) > 0xffff ? 2 : 1;
      points += 1;
    }
    if (points === place) units.set(place, at);
  }
  return enrichments
    .filter(({ span }) => units.has(span.end))
    .map((enrichment) => ({ from: units.get(enrichment.span.start), to: units.get(enrichment.span.end), enrichment }));
}

/** What a finding leads to, `{type, ...}`, or null for a note. A finding whose data does not fit its kind is a note. */
function referenceOf({ kind, data }) {
  if (LINK_KINDS.has(kind)) {
    const href = safeUrl(data?.url);
    return href && { type: "url", href };
  }
  if (MESSAGE_KINDS.has(kind) && typeof data?.message_id === "string") return { type: "message", id: data.message_id };
  if ((kind === "file_path" || kind === "code_ref") && typeof data?.path === "string") {
    return { type: "place", label: kind === "code_ref" ? "Code" : "File", place: placeOf(data) };
  }
  return null;
}

function placeOf({ path, line, end_line: lineEnd }) {
  if (!Number.isInteger(line)) return path;
  return Number.isInteger(lineEnd) && lineEnd !== line ? `${path}:${line}-${lineEnd}` : `${path}:${line}`;
}

function withoutOverlap(spans) {
  const kept = [];
  for (const span of spans.sort((a, b) => a.from - b.from || b.to - a.to)) {
    if (kept.length === 0 || kept.at(-1).to <= span.from) kept.push(span);
  }
  return kept;
}

/** Stretches of text with the same findings, in order, none overlapping another; text without any is left out. */
function intervalsOf(references, notes) {
  const borders = new Map();
  const border = (at) => borders.get(at) ?? borders.set(at, { begin: [], end: [] }).get(at);
  for (const span of [...references, ...notes]) {
    border(span.from).begin.push(span);
    border(span.to).end.push(span);
  }
  const intervals = [];
  const open = new Set();
  let from = 0;
  for (const [at, { begin, end }] of [...borders].sort(([a], [b]) => a - b)) {
    if (open.size > 0) intervals.push(intervalOf(from, at, open));
    for (const span of end) open.delete(span);
    for (const span of begin) open.add(span);
    from = at;
  }
  return intervals;
}

function intervalOf(from, to, open) {
  let reference = null;
  const notes = [];
  for (const span of open) {
    if (span.reference) reference = span;
    else if (notes.length < NOTES_MAX) notes.push(noteOf(span.enrichment));
  }
  return { from, to, reference, notes };
}

function noteOf({ kind, data, plugin_name: plugin }) {
  const text = JSON.stringify(data ?? {});
  const shown = text.length > NOTE_CHARS_MAX ? `${text.slice(0, NOTE_CHARS_MAX)}…` : text;
  return `${kind}${plugin ? ` (${plugin})` : ""}: ${shown}`;
}
