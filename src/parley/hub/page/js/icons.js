/** The page's icons: lines on a grid of 16, drawn as SVG nodes. They decorate; the button around one has the name. */

import { s } from "./dom.js";

const PATHS = {
  arrowDown: "M8 3v10M4 9l4 4 4-4",
  arrowUp: "M8 13V3M4 7l4-4 4 4",
  attachment: "M12.5 7.5 7.8 12.2a3 3 0 0 1-4.2-4.2l5-5a2 2 0 0 1 2.8 2.8l-4.9 5a1 1 0 0 1-1.4-1.4L9.5 5",
  chart: "M2.5 13.5h11M4.5 11V7.5M8 11V3.5M11.5 11V6",
  chevron: "m6 4 4 4-4 4",
  close: "m4 4 8 8M12 4l-8 8",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  edit: "m3 13 .6-2.8 7.2-7.2 2.2 2.2-7.2 7.2zM9.6 4.2l2.2 2.2",
  events: "M2.5 4h11M2.5 8h7M2.5 12h9",
  hash: "M6 2.5 4.8 13.5M11.2 2.5 10 13.5M2.8 5.8h10.8M2.4 10.2h10.8",
  history: "M2.8 8a5.2 5.2 0 1 0 1.6-3.7L2.8 5.8M2.8 2.8v3h3M8 5.2V8l2 1.4",
  home: "m2.5 7.5 5.5-5 5.5 5M4 6.5v7h8v-7",
  link: "M6.8 9.2a2.4 2.4 0 0 0 3.4 0l2.4-2.4a2.4 2.4 0 0 0-3.4-3.4l-.9.9M9.2 6.8a2.4 2.4 0 0 0-3.4 0L3.4 9.2a2.4 2.4 0 0 0 3.4 3.4l.9-.9",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  move: "M2.5 8h9M8.5 5l3 3-3 3M13.5 3v10",
  pencil: "m3 13 .6-2.8 7.2-7.2 2.2 2.2-7.2 7.2z",
  plus: "M8 3v10M3 8h10",
  prompt: "m3 4.5 3.5 3.5L3 11.5M8.5 12h4.5",
  reply: "M6.5 4 2.5 8l4 4M3 8h6.5a4 4 0 0 1 4 4v.5",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.2 3.2",
  send: "M2.5 8 13.5 2.8 10.5 13.5 7.8 9z M7.8 9l5.7-6.2",
  sidebar: "M2.5 3h11v10h-11zM6.5 3v10",
  sun: "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9M6.8 7v4M9.2 7v4",
  work: "M2.5 3.5h3v3h-3zM2.5 9.5h3v3h-3zM8 5h5.5M8 11h5.5",
};

/** One icon by name. */
export function icon(name) {
  return s("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}
