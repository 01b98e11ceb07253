/**
 * A sender at a glance: initials on a colour that belongs to the name. The hue alone differs, so contrast is the same
 * for all.
 */

import { h } from "./dom.js";

/** A hue in degrees, the same for a name everywhere. */
function hueOf(name) {
  let hash = 0x811c9dc5;
  for (const character of name) hash = Math.imul(hash ^ character.codePointAt(0), 0x01000193);
  // The golden angle spreads neighbouring hashes over the circle.
  return Math.round(((hash >>> 0) * 137.508) % 360);
}

function initialsOf(name) {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  if (words.length === 0) return "?";
  const letters = words.length === 1 ? [...words[0]].slice(0, 2) : [[...words[0]][0], [...words.at(-1)][0]];
  return letters.join("").toUpperCase();
}

export function avatar(name) {
  return h("span", { class: "avatar", "aria-hidden": "true", style: { "--hue": hueOf(name) } }, initialsOf(name));
}

export function senderName(name) {
  return h("span", { class: "sender", style: { "--hue": hueOf(name) }, title: name }, name);
}
