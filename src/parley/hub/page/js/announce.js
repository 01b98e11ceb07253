/**
 * Tells a screen reader what happened, politely and without a flood: texts of one second are read together, and of
 * many only the last few.
 */

import { h } from "./dom.js";

const GATHER_MS = 1000;
const TEXTS_MAX = 3;

export function createAnnouncer() {
  const region = h("div", {
    class: "visually-hidden",
    role: "status",
    "aria-live": "polite",
    dataset: { testid: "announcer" },
  });
  document.body.append(region);
  let waiting = [];
  let timer = null;
  return function announce(text) {
    waiting.push(text);
    if (timer !== null) return;
    timer = setTimeout(() => {
      region.textContent = waiting.slice(-TEXTS_MAX).join(". ");
      waiting = [];
      timer = null;
    }, GATHER_MS);
  };
}
