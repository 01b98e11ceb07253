/**
 * The sidebar: the workspace's name, the places of the page, all channels with their recent topics, and who you are.
 */

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { mountChannelList } from "./channel_list.js";
import { createChannel } from "./creating.js";
import { askName } from "./identity.js";
import { themeSwitch } from "./theme_switch.js";
import { avatar } from "./avatar.js";

const PLACES = [
  { href: "#/", name: "home", title: "Home", icon: "home" },
  { href: "#/work", name: "work", title: "Work", icon: "work" },
  { href: "#/search", name: "search", title: "Search", icon: "search" },
  { href: "#/events", name: "events", title: "Events", icon: "events" },
  { href: "#/status", name: "status", title: "Status", icon: "chart" },
];

export function mountSidebar(app, { onClose }) {
  const filter = h("input", {
    type: "search",
    class: "input sidebar-filter",
    placeholder: "Filter channels and topics",
    "aria-label": "Filter channels and topics",
    autocomplete: "off",
    spellcheck: "false",
    onInput: () => list.setFilter(filter.value),
    onKeydown: (event) => {
      if (event.key !== "Escape" || filter.value === "") return;
      event.stopPropagation();
      filter.value = "";
      list.setFilter("");
    },
  });
  const list = mountChannelList(app);
  const places = PLACES.map((place) => ({
    ...place,
    link: h("a", { class: "place", href: place.href }, icon(place.icon), place.title),
  }));
  const me = h("button", { type: "button", class: "me", onClick: () => askName(app) });
  const element = h(
    "nav",
    { class: "sidebar", id: "sidebar", "aria-label": "Channels and topics" },
    h(
      "div",
      { class: "sidebar-head" },
      h("a", { class: "workspace-name", href: "#/" }, app.store.session.workspace_name ?? "Parley"),
      h(
        "button",
        {
          type: "button",
          class: "icon-button",
          "aria-label": "Hide the sidebar",
          title: "Hide the sidebar",
          onClick: onClose,
        },
        icon("sidebar"),
      ),
    ),
    h(
      "ul",
      { class: "places" },
      [...places.map(({ link }) => link), commandsButton(app)].map((place) => h("li", null, place)),
    ),
    h(
      "div",
      { class: "sidebar-tools" },
      filter,
      h(
        "button",
        {
          type: "button",
          class: "icon-button",
          "aria-label": "New channel",
          title: "New channel",
          onClick: () => createChannel(app),
        },
        icon("plus"),
      ),
    ),
    list.element,
    h("div", { class: "sidebar-foot" }, me, themeSwitch()),
  );

  function showPlace() {
    const name = app.router.current?.route.name;
    for (const place of places) {
      if (place.name === name) place.link.setAttribute("aria-current", "page");
      else place.link.removeAttribute("aria-current");
    }
  }

  function showName() {
    const name = app.prefs.get("name");
    me.replaceChildren(avatar(name ?? "?"), h("span", { class: "me-name" }, name ?? "Choose your name"));
    me.setAttribute("aria-label", name === null ? "Choose your name" : `You are ${name}. Change your name`);
  }

  const stops = [
    app.router.onChange(showPlace),
    app.prefs.onChange((name) => name === "name" && showName()),
    app.commands.add({
      id: "sidebar.filter",
      title: "Filter channels and topics",
      keys: "f",
      run: () => filter.focus(),
    }),
  ];
  showPlace();
  showName();
  return {
    element,
    onUnreadTopics: list.onUnreadTopics,
    focus: () => filter.focus({ preventScroll: true }),
    unmount() {
      for (const stop of stops) stop();
      list.unmount();
    },
  };
}

/** Opens the palette, for those who do not know its key yet or have no keyboard. */
function commandsButton(app) {
  const key = /Mac/.test(navigator.platform) ? "⌘K" : "Ctrl K";
  return h(
    "button",
    { type: "button", class: "place", onClick: () => app.commands.run("palette.open") },
    icon("prompt"),
    "Commands",
    h("kbd", { class: "kbd", "aria-hidden": "true" }, key),
  );
}
