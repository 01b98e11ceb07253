/**
 * Finding by a few letters: the letters of the query must occur in the text in order.
 *
 * A letter counts more at the beginning of a word and right after the letter before it, and short texts win over long
 * ones, so "gs" finds "Go to status" before "Messages". The best places are found by dynamic programming over both
 * texts; these are names and titles, a few hundred characters at most.
 */

const WORD_START = 7;
const NEXT_TO = 8;
const FOUND = 1;
const TEXT_CHARS_MAX = 240;

/** `{score, places}`, places being the indexes of the letters found, or null when the text does not hold them. */
export function fuzzy(query, text) {
  const wanted = [...query.toLowerCase().replace(/\s+/g, "")];
  const letters = [...text.slice(0, TEXT_CHARS_MAX)].map((letter) => letter.toLowerCase());
  if (wanted.length === 0) return { score: 0, places: [] };
  if (wanted.length > letters.length) return null;
  const rows = bestRows(wanted, letters);
  const last = rows.at(-1);
  let at = last.indexOf(Math.max(...last));
  if (last[at] === -Infinity) return null;
  const score = last[at] - letters.length / 100;
  const places = [];
  for (let row = wanted.length - 1; row >= 0; row -= 1) {
    places.unshift(at);
    if (row > 0) at = before(rows[row - 1], letters, at);
  }
  return { score, places };
}

/** Row by row, the best score of matching the query so far with its last letter at each place. */
function bestRows(wanted, letters) {
  const rows = [];
  for (const [row, letter] of wanted.entries()) {
    const scores = new Array(letters.length).fill(-Infinity);
    let best = -Infinity;
    for (let at = 0; at < letters.length; at += 1) {
      const previous = row === 0 ? 0 : Math.max(best, at > 0 ? rows[row - 1][at - 1] + NEXT_TO : -Infinity);
      if (letters[at] === letter) scores[at] = previous + FOUND + (isStart(letters, at) ? WORD_START : 0);
      if (row > 0 && at > 0) best = Math.max(best, rows[row - 1][at - 1]);
    }
    rows.push(scores);
  }
  return rows;
}

function before(scores, letters, at) {
  let found = at - 1;
  let best = scores[at - 1] + NEXT_TO;
  for (let place = at - 2; place >= 0; place -= 1) {
    if (scores[place] > best) [best, found] = [scores[place], place];
  }
  return found;
}

function isStart(letters, at) {
  return at === 0 || !/[\p{L}\p{N}]/u.test(letters[at - 1]);
}
