/**
 * What changed between two texts, word by word.
 *
 * Common beginnings and ends are set aside, the rest is compared by the longest common subsequence of its words. That
 * costs the product of both lengths, so above a bound the middle counts as replaced as a whole: a reader cannot follow
 * more anyway.
 */

const CELLS_MAX = 1_500_000;

/** A list of `{kind: "same" | "removed" | "added", text}`, in order. */
export function diff(before, after) {
  const a = words(before);
  const b = words(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const pieces = [
    ...a.slice(0, start).map((text) => ({ kind: "same", text })),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...a.slice(a.length - end).map((text) => ({ kind: "same", text })),
  ];
  return joined(pieces);
}

function words(text) {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

function middle(a, b) {
  if (a.length * b.length > CELLS_MAX) {
    return [...a.map((text) => ({ kind: "removed", text })), ...b.map((text) => ({ kind: "added", text }))];
  }
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      lengths[at] = a[i] === b[j] ? lengths[at + width + 1] + 1 : Math.max(lengths[at + width], lengths[at + 1]);
    }
  }
  const pieces = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const isSame = i < a.length && j < b.length && a[i] === b[j];
    const removes = j === b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]);
    if (isSame) pieces.push({ kind: "same", text: a[i] });
    else if (removes) pieces.push({ kind: "removed", text: a[i] });
    else pieces.push({ kind: "added", text: b[j] });
    if (isSame || removes) i += 1;
    if (isSame || !removes) j += 1;
  }
  return pieces;
}

function joined(pieces) {
  const runs = [];
  for (const piece of pieces) {
    const last = runs.at(-1);
    if (last?.kind === piece.kind) last.text += piece.text;
    else runs.push({ ...piece });
  }
  return runs;
}
