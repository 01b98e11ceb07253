/** Long texts, such as logs that agents paste, show their beginning until somebody asks for all of it. */

import { h } from "../dom.js";

const CHARS_MAX = 5000;
const LINES_MAX = 60;

/** The content as it is, or folded with a button below it. */
export function foldable(text, content) {
  if (text.length <= CHARS_MAX && text.split("\n", LINES_MAX + 1).length <= LINES_MAX) return content;
  const body = h("div", { class: "folded" }, content);
  const lines = text.split("\n").length;
  const button = h("button", { type: "button", class: "link-button", "aria-expanded": "false" });
  const draw = (isFolded) => {
    body.classList.toggle("folded", isFolded);
    button.setAttribute("aria-expanded", String(!isFolded));
    button.textContent = isFolded
      ? `Show all (${lines === 1 ? `${text.length.toLocaleString()} characters` : `${lines.toLocaleString()} lines`})`
      : "Show less";
  };
  button.addEventListener("click", () => draw(!body.classList.contains("folded")));
  draw(true);
  return [body, button];
}
