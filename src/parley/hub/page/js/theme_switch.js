/** Light, dark, or as the system has it. The choice is one for all workspaces. */

import { Prefs } from "./prefs.js";
import { h, replace } from "./dom.js";
import { icon } from "./icons.js";

const ICONS = { light: "sun", dark: "moon" };
const prefs = new Prefs();
const systemIsDark = window.matchMedia("(prefers-color-scheme: dark)");

function themeNow() {
  return prefs.get("theme") ?? (systemIsDark.matches ? "dark" : "light");
}

/** Goes to the other theme; when that is the system's own, back to following the system. */
export function switchTheme() {
  const next = themeNow() === "dark" ? "light" : "dark";
  const isSystems = next === (systemIsDark.matches ? "dark" : "light");
  if (isSystems) {
    prefs.remove("theme");
    delete document.documentElement.dataset.theme;
  } else {
    prefs.set("theme", next);
    document.documentElement.dataset.theme = next;
  }
}

export function themeSwitch() {
  const button = h("button", { type: "button", class: "icon-button", onClick: switchTheme });
  const draw = () => {
    const other = themeNow() === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", `Use the ${other} theme`);
    button.title = `Use the ${other} theme`;
    replace(button, icon(ICONS[other]));
  };
  prefs.onChange(draw);
  systemIsDark.addEventListener("change", draw);
  draw();
  return button;
}
