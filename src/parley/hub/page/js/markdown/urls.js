/**
 * Which text may become a link, and how far an address in running text reaches.
 *
 * Only http and https ever become links. An address that a browser would not parse stays text. The hub finds the links
 * of a message by the same rules (`core/addresses.py`, `core/links.py`); a table of examples holds both together.
 */

const ADDRESS_CHARS_MAX = 2048;
const STRIPPED = new Set(".,;:!?'*_~\u00ab\u00bb\u2018\u2019\u201c\u201d\u2026\u2039\u203a"); // last: typographic ends
const CLOSERS = new Map([
  [")", "("],
  ["]", "["],
  ["}", "{"],
]);
const ENDS = [
  '\\s<>"`', // blanks and quotes
  "\\u0000-\\u001f\\u007f-\\u009f", // controls
  "\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff", // invisible characters
  "\\u3000-\\u3003\\u3008-\\u3011\\uff01\\uff08\\uff09\\uff0c\\uff1a\\uff1b\\uff1f", // Chinese and Japanese punctuation
];
const ADDRESS = new RegExp(`[^${ENDS.join("")}]{1,${ADDRESS_CHARS_MAX + 1}}`, "y");
const HOST = /^https?:\/\/(?:[^/?#\\]*@)?(\[[^\]]*\]|[^/?#\\@:]*)/i;
const NO_HOST = new RegExp(
  [
    "[%\\p{C}\\p{Z}\\ufffd\\u3002]", // not readable, or a dot to a browser alone
    "[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\ufe00-\\ufe0f]", // invisible characters
    "(?:^|\\.)(?:\\p{M}|xn--(?![a-z0-9-]*[a-z0-9](?:\\.|$)))", // labels that mean nothing
  ].join("|"),
  "iu",
);
const NUMBER = /(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$/i;
const IPV4 = /^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.|$)){4}$/;
const OPENING = /\([ \t]{0,64}(<?)(?=https?:\/\/)/iy;
const CLOSING = /(?:[ \t]{1,64}"[^"\n]{0,500}")?[ \t]{0,64}\)/y;
const PARENTHESES_MAX = 32;
const [SPACE, OPEN, CLOSE, LESS] = [0x20, 0x28, 0x29, 0x3c];

/** The address as the browser will open it, or null when it is not an http or https address. */
export function safeUrl(text) {
  if (typeof text !== "string" || text.length > ADDRESS_CHARS_MAX || !/^https?:\/\/[^/\\]/i.test(text)) return null;
  if (/[\u0000-\u001f]| $/.test(text) || !isPlain(HOST.exec(text)[1])) return null; // the parser takes those out
  try {
    return new URL(text).href;
  } catch {
    return null;
  }
}

/** Whether a host means the same to everybody; a browser would look for some other spelling of what this refuses. */
function isPlain(host) {
  if (host.startsWith("[")) return true;
  if (NO_HOST.test(host)) return false;
  if (NUMBER.test(host)) return IPV4.test(host);
  return host.normalize("NFKC") === host.normalize("NFC");
}

/**
 * The bare address that begins at `at`: `{href, to}`, or null. Punctuation that ends the sentence is not part of it,
 * nor, inside the brackets of a link, the closing bracket.
 */
export function addressAt(text, at, inBrackets) {
  ADDRESS.lastIndex = at;
  const found = ADDRESS.exec(text);
  if (!found) return null;
  const address = inBrackets ? found[0].split("]", 1)[0] : found[0];
  if (address.length > ADDRESS_CHARS_MAX) return null;
  const to = at + withoutTail(address);
  const href = safeUrl(text.slice(at, to));
  return href && { href, to };
}

function withoutTail(address) {
  const surplus = new Map();
  for (const character of address) {
    if (CLOSERS.has(character)) surplus.set(character, (surplus.get(character) ?? 0) + 1);
    for (const [closer, opener] of CLOSERS) {
      if (character === opener) surplus.set(closer, (surplus.get(closer) ?? 0) - 1);
    }
  }
  let length = address.length;
  for (; length > 0; length -= 1) {
    const last = address[length - 1];
    if (STRIPPED.has(last)) continue;
    if (!((surplus.get(last) ?? 0) > 0)) break;
    surplus.set(last, surplus.get(last) - 1);
  }
  return length;
}

/**
 * The `(address)` or `(<address> "title")` of a link, `at` standing on the opening parenthesis: `{href, to}` with `to`
 * behind the closing one, or null. The title is not used: the link's own title always says where it leads.
 */
export function destinationAt(text, at) {
  OPENING.lastIndex = at;
  const opening = OPENING.exec(text);
  if (!opening) return null;
  const angle = opening[1] === "<";
  const begin = at + opening[0].length;
  const end = angle ? text.slice(begin, begin + ADDRESS_CHARS_MAX).search(/(?<=^[^\n>]*)>/) + begin : rawEnd(text, begin);
  if (end < begin) return null;
  CLOSING.lastIndex = angle ? end + 1 : end;
  const href = CLOSING.test(text) ? safeUrl(text.slice(begin, end)) : null;
  return href && { href, to: CLOSING.lastIndex };
}

/** Where an address without angle brackets ends: at a blank, or at a parenthesis that it did not open. */
function rawEnd(text, begin) {
  const limit = Math.min(text.length, begin + ADDRESS_CHARS_MAX);
  let open = 0;
  for (let at = begin; at < limit; at += 1) {
    const code = text.charCodeAt(at);
    if (code <= SPACE || code === LESS) return at;
    if (code === OPEN && (open += 1) > PARENTHESES_MAX) return -1;
    if (code === CLOSE && open === 0) return at;
    if (code === CLOSE) open -= 1;
  }
  return -1;
}
