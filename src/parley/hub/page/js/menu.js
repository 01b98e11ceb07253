/**
 * A menu that drops down from a button: arrow keys move, Enter chooses, Escape and a press elsewhere close, and the
 * focus goes back to the button.
 */

import { h } from "./dom.js";
import { icon } from "./icons.js";

const EDGE = 8;
let opened = null;

/** Opens a menu at a button. `items` are `{label, icon, run, danger?}` or null, which are left out. */
export function openMenu(button, items, { label }) {
  const again = opened?.button === button;
  opened?.close();
  if (again) return;
  const close = ({ refocus = true } = {}) => {
    menu.remove();
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", onOutside, true);
    window.removeEventListener("resize", close);
    opened = null;
    if (refocus && button.isConnected) button.focus({ preventScroll: true });
  };
  const onOutside = (event) => {
    if (!menu.contains(event.target) && !button.contains(event.target)) close({ refocus: false });
  };
  const menu = h(
    "div",
    { class: "menu", role: "menu", "aria-label": label, onKeydown: (event) => onKey(event, menu, close) },
    items.filter(Boolean).map((item) =>
      h(
        "button",
        {
          type: "button",
          role: "menuitem",
          tabindex: "-1",
          class: item.danger ? "menu-item menu-item-danger" : "menu-item",
          onClick: () => {
            close();
            item.run();
          },
        },
        icon(item.icon),
        item.label,
      ),
    ),
  );
  document.body.append(menu);
  place(menu, button);
  button.setAttribute("aria-expanded", "true");
  document.addEventListener("pointerdown", onOutside, true);
  window.addEventListener("resize", close);
  opened = { button, close };
  menu.firstElementChild.focus();
}

function onKey(event, menu, close) {
  const items = [...menu.children];
  const at = items.indexOf(document.activeElement);
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 };
  if (event.key === "Escape" || event.key === "Tab") close();
  else if (event.key in steps) items.at(steps[event.key] % items.length).focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function place(menu, button) {
  const from = button.getBoundingClientRect();
  const size = menu.getBoundingClientRect();
  const below = from.bottom + 4;
  const top = below + size.height + EDGE > innerHeight ? Math.max(EDGE, from.top - size.height - 4) : below;
  const left = Math.min(Math.max(EDGE, from.right - size.width), innerWidth - size.width - EDGE);
  menu.style.top = `${top}px`;
  menu.style.left = `${left}px`;
}
