/**
 * The block structure of a message: which lines form a paragraph, a list, a quote, a table, a block of code.
 *
 * Nothing here copies text. A block holds ranges of the source (`{from, to}`, in UTF-16 units), so that whoever draws
 * it still knows where each character stood, and a plugin's findings can be laid over exactly the characters they mean.
 *
 * It is the Markdown that agents and people write in a chat, not all of CommonMark: a line break is a line break, and
 * what is not marked as quoted or indented as part of an item is neither. There is no HTML and no code by indentation.
 * Containers nest at most `DEPTH_MAX` deep; deeper markers are text. Each level reads its lines once, so the work is
 * bounded by the length of the text times that depth.
 */

const DEPTH_MAX = 12;
const COLUMNS_MAX = 64;
const ITEM_INDENT = 2;

const RULE = /^[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const HEADING = /^[ \t]*(#{1,6})(?:[ \t]+|$)/;
const QUOTE = /^[ \t]*> ?/;
const ITEM = /^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const FENCE = /^[ \t]*(`{3,}|~{3,})/;
const TASK = /^\[([ xX])\](?=[ \t]|$)[ \t]*/;
const DIVIDER = /^:?-+:?$/;

/** The blocks of a whole message. */
export function parseBlocks(source) {
  return blocksOf({ source, lines: linesOf(source), depth: 0 });
}

function linesOf(source) {
  const lines = [];
  const breaks = /\r\n|\r|\n/g;
  let from = 0;
  for (let found = breaks.exec(source); found; found = breaks.exec(source)) {
    lines.push({ from, to: found.index });
    from = breaks.lastIndex;
  }
  lines.push({ from, to: source.length });
  return lines;
}

/** `part` is what one container holds: the source, its own lines without the container's marks, and how deep it is. */
function blocksOf(part) {
  const blocks = [];
  let paragraph = null;
  for (let index = 0; index < part.lines.length;) {
    const text = textAt(part, index);
    if (isBlank(text)) {
      paragraph = null;
      index += 1;
      continue;
    }
    const found = blockAt(part, index, text, paragraph !== null);
    if (found) {
      blocks.push(found.block);
      paragraph = null;
      index = found.next;
      continue;
    }
    if (!paragraph) blocks.push((paragraph = { type: "paragraph", lines: [] }));
    paragraph.lines.push(part.lines[index]);
    index += 1;
  }
  return blocks;
}

function blockAt(part, index, text, afterText) {
  return (
    fenceAt(part, index, text) ??
    headingAt(part, index, text) ??
    (RULE.test(text) ? { block: { type: "rule" }, next: index + 1 } : null) ??
    quoteAt(part, index, text) ??
    listAt(part, index, text, afterText) ??
    tableAt(part, index, text)
  );
}

function fenceAt(part, index, text) {
  const found = FENCE.exec(text);
  if (!found) return null;
  const mark = found[1];
  const info = text.slice(found[0].length).trim();
  if (mark[0] === "`" && info.includes("`")) return null;
  const indent = columnsOf(text);
  const lines = [];
  let next = index + 1;
  for (; next < part.lines.length; next += 1) {
    const line = textAt(part, next).trim();
    if (line.length >= mark.length && line === mark[0].repeat(line.length)) break;
    lines.push(withoutIndent(part, next, indent));
  }
  const language = info.split(/\s/, 1)[0].slice(0, 40);
  return { block: { type: "code", language, lines }, next: next + 1 };
}

function headingAt(part, index, text) {
  const found = HEADING.exec(text);
  if (!found) return null;
  const { from } = part.lines[index];
  let end = text.trimEnd().length;
  let hashes = end;
  while (hashes > found[0].length && text[hashes - 1] === "#") hashes -= 1;
  if (hashes === found[0].length || isSpace(text[hashes - 1])) end = text.slice(0, hashes).trimEnd().length;
  const line = { from: from + found[0].length, to: from + Math.max(end, found[0].length) };
  return { block: { type: "heading", level: found[1].length, lines: [line] }, next: index + 1 };
}

function quoteAt(part, index, text) {
  if (part.depth >= DEPTH_MAX || !QUOTE.test(text)) return null;
  const lines = [];
  let next = index;
  for (; next < part.lines.length; next += 1) {
    const found = QUOTE.exec(textAt(part, next));
    if (!found) break;
    const { from, to } = part.lines[next];
    lines.push({ from: from + found[0].length, to });
  }
  return { block: { type: "quote", blocks: inner(part, lines) }, next };
}

function listAt(part, index, text, afterText) {
  const first = part.depth < DEPTH_MAX ? markerOf(text) : null;
  if (!first) return null;
  // A number that happens to begin a line of prose ("1984. A year ...") does not break the prose into a list.
  if (afterText && (first.empty || (first.ordered && first.number !== 1))) return null;
  const items = [];
  let next = index;
  for (let marker = first; marker && marker.ordered === first.ordered;) {
    const taken = itemAt(part, next, marker);
    items.push(taken.item);
    next = taken.next;
    const after = skipBlank(part, next);
    const following = after < part.lines.length ? textAt(part, after) : "";
    marker = RULE.test(following) ? null : markerOf(following);
    if (marker && marker.ordered === first.ordered) next = after;
  }
  return { block: { type: "list", ordered: first.ordered, start: first.number, items }, next };
}

function markerOf(text) {
  const found = ITEM.exec(text);
  if (!found) return null;
  const ordered = /\d/.test(found[2]);
  return {
    ordered,
    number: ordered ? Number.parseInt(found[2], 10) : 1,
    indent: columnsOf(found[1]),
    length: found[0].length,
    content: columnsOf(found[1]) + found[2].length + Math.min(Math.max(found[3].length, 1), 4),
    empty: text.length === found[0].length,
  };
}

function itemAt(part, index, marker) {
  const { from, to } = part.lines[index];
  const task = TASK.exec(part.source.slice(from + marker.length, to));
  const lines = [{ from: from + marker.length + (task ? task[0].length : 0), to }];
  let next = index + 1;
  while (next < part.lines.length) {
    const after = skipBlank(part, next);
    if (after === part.lines.length || columnsOf(textAt(part, after)) < marker.indent + ITEM_INDENT) break;
    for (; next <= after; next += 1) lines.push(withoutIndent(part, next, marker.content));
  }
  const done = task ? task[1] !== " " : null;
  return { item: { done, blocks: inner(part, lines) }, next };
}

function tableAt(part, index, text) {
  if (!text.includes("|") || index + 1 >= part.lines.length) return null;
  const aligns = dividerOf(textAt(part, index + 1));
  if (!aligns) return null;
  const header = cellsOf(part, index);
  if (header.length !== aligns.length) return null;
  const rows = [];
  let next = index + 2;
  for (; next < part.lines.length; next += 1) {
    if (!textAt(part, next).includes("|")) break;
    rows.push(cellsOf(part, next));
  }
  return { block: { type: "table", aligns, header, rows }, next };
}

function dividerOf(text) {
  if (!text.includes("-") || !text.includes("|")) return null;
  const cells = text
    .trim()
    .replace(/^\|/, "")
    .replace(/\|$/, "")
    .split("|", COLUMNS_MAX + 1);
  if (cells.length > COLUMNS_MAX) return null;
  const marks = cells.map((cell) => cell.trim());
  if (!marks.every((mark) => DIVIDER.test(mark))) return null;
  return marks.map((mark) => {
    if (mark.endsWith(":")) return mark.startsWith(":") ? "center" : "end";
    return "start";
  });
}

function cellsOf(part, index) {
  const { from, to } = part.lines[index];
  const text = part.source.slice(from, to);
  const cells = [];
  let begin = /^[ \t]*\|?/.exec(text)[0].length;
  for (let at = begin; at <= text.length; at += 1) {
    if (at < text.length && (text[at] !== "|" || text[at - 1] === "\\")) continue;
    if (at === text.length && isBlank(text.slice(begin)) && cells.length > 0) break;
    cells.push(trimmed(part.source, { from: from + begin, to: from + at }));
    begin = at + 1;
  }
  return cells;
}

function trimmed(source, { from, to }) {
  while (from < to && isSpace(source[from])) from += 1;
  while (to > from && isSpace(source[to - 1])) to -= 1;
  return { from, to };
}

function inner(part, lines) {
  return blocksOf({ source: part.source, lines, depth: part.depth + 1 });
}

function textAt(part, index) {
  const { from, to } = part.lines[index];
  return part.source.slice(from, to);
}

function skipBlank(part, index) {
  while (index < part.lines.length && isBlank(textAt(part, index))) index += 1;
  return index;
}

function withoutIndent(part, index, columns) {
  const { from, to } = part.lines[index];
  let at = from;
  for (let width = 0; at < to && width < columns && isSpace(part.source[at]); at += 1) {
    width = part.source[at] === "\t" ? width + 4 - (width % 4) : width + 1;
  }
  return { from: at, to };
}

function columnsOf(text) {
  let width = 0;
  for (let at = 0; at < text.length && isSpace(text[at]); at += 1) {
    width = text[at] === "\t" ? width + 4 - (width % 4) : width + 1;
  }
  return width;
}

function isSpace(character) {
  return character === " " || character === "\t";
}

function isBlank(text) {
  return text.trim() === "";
}
