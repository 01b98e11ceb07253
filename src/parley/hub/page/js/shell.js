/**
 * The frame around the views: the sidebar (a drawer on a phone), the bar that opens it, the banner about the
 * connection, and the place where views are shown.
 */

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { mountBanner } from "./banner.js";
import { mountSidebar } from "./sidebar.js";

const PHONE = window.matchMedia("(max-width: 719.98px)");

export function mountShell(root, app) {
  // A tab stop, so that the keyboard scrolls a view in which nothing else can have the focus.
  const main = h("main", { class: "main", id: "main", tabindex: "0" });
  const barTitle = h("span", { class: "topbar-title" });
  const opener = h(
    "button",
    {
      type: "button",
      class: "icon-button",
      "aria-label": "Show channels and topics",
      "aria-controls": "sidebar",
      onClick: () => setOpen(true),
    },
    icon("menu"),
  );
  const topbar = h("header", { class: "topbar" }, opener, barTitle);
  const banner = mountBanner(app);
  const skip = h("button", { type: "button", class: "skip", onClick: () => main.focus() }, "Skip to the content");
  const sidebar = mountSidebar(app, { onClose: () => setOpen(false) });
  const scrim = h("div", { class: "scrim", onClick: () => setOpen(false) });
  const column = h("div", { class: "column" }, topbar, banner.element, main);
  const frame = h("div", { class: "frame" }, skip, sidebar.element, scrim, column);
  let title = "";
  let unreadTopics = 0;

  /** On a phone the drawer covers the page, so the page behind it rests; elsewhere the choice is remembered. */
  function setOpen(open) {
    frame.dataset.sidebar = open ? "open" : "closed";
    column.inert = open && PHONE.matches;
    opener.setAttribute("aria-expanded", String(open));
    if (!PHONE.matches) app.prefs.set("sidebar_open", open);
    if (open) sidebar.focus();
    else if (sidebar.element.contains(document.activeElement)) opener.focus();
  }

  function fitScreen() {
    const open = !PHONE.matches && app.prefs.get("sidebar_open", true);
    frame.dataset.sidebar = open ? "open" : "closed";
    column.inert = false;
    opener.setAttribute("aria-expanded", String(open));
  }

  function showTitle() {
    const count = unreadTopics > 0 ? `(${unreadTopics}) ` : "";
    document.title = `${count}${title} · ${app.store.session.workspace_name ?? "Parley"}`;
  }

  const onEscape = (event) => {
    if (event.key === "Escape" && PHONE.matches && frame.dataset.sidebar === "open") setOpen(false);
  };
  const stops = [
    app.router.onChange(() => PHONE.matches && frame.dataset.sidebar === "open" && setOpen(false)),
    sidebar.onUnreadTopics((count) => {
      unreadTopics = count;
      showTitle();
    }),
    app.commands.add({
      id: "sidebar.toggle",
      title: "Show or hide the sidebar",
      keys: "[",
      run: () => setOpen(frame.dataset.sidebar !== "open"),
    }),
  ];
  PHONE.addEventListener("change", fitScreen);
  document.addEventListener("keydown", onEscape);
  fitScreen();
  root.replaceChildren(frame);
  return {
    main,
    setTitle(text) {
      title = text;
      barTitle.textContent = text;
      showTitle();
    },
    unmount() {
      for (const stop of stops) stop();
      PHONE.removeEventListener("change", fitScreen);
      document.removeEventListener("keydown", onEscape);
      banner.unmount();
      sidebar.unmount();
      frame.remove();
    },
  };
}
