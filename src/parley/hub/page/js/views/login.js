/**
 * Shown without a session: how to get one. Only the command line can make a log-in link, so that is what this explains,
 * in the words that fit why we are here. A log-in in another window lets this one go on by itself.
 */

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";

const WHY = {
  ended: ["Log in to Parley", "This browser has no session at this hub, or the session has ended."],
  refused: [
    "This link did not work",
    "A log-in link works once and for five minutes. This one was used already or has expired.",
  ],
  unreachable: ["The hub does not answer", "It may have stopped, or it may have restarted on another port."],
};

export function mount(root, { api, reason, error, onSession }) {
  const [title, text] = WHY[reason];
  document.title = `${title} · Parley`;
  const copied = h("span", { class: "login-copied", role: "status" });
  const copy = async () => {
    await navigator.clipboard.writeText("parley ui");
    copied.textContent = "Copied";
  };
  const look = async () => {
    if (document.visibilityState !== "visible") return;
    const answer = await fetch("/api/v1/ui/session", { cache: "no-store" }).catch(() => null);
    if (answer?.ok) await onSession();
  };
  const card = h(
    "main",
    { class: "login", dataset: { testid: "login" } },
    h("img", { src: "/ui/assets/icon.svg", alt: "", width: "40", height: "40" }),
    h("h1", null, title),
    h("p", null, reason === "refused" && error.status !== 401 && error.status !== 400 ? error.message : text),
    h("p", null, "In the workspace's folder, run"),
    h(
      "div",
      { class: "login-command" },
      h("code", null, "parley ui"),
      h(
        "button",
        { type: "button", class: "icon-button", "aria-label": "Copy the command", onClick: copy },
        icon("copy"),
      ),
      copied,
    ),
    h(
      "p",
      { class: "login-more" },
      "It opens this page, logged in. Without a browser at hand, ",
      h("code", null, "parley ui --print-url"),
      " prints the link.",
    ),
    h("button", { type: "button", class: "button", onClick: () => location.reload() }, "Try again"),
  );
  replace(root, card);
  window.addEventListener("focus", look);
  document.addEventListener("visibilitychange", look);
  return {
    isLogin: true,
    unmount() {
      window.removeEventListener("focus", look);
      document.removeEventListener("visibilitychange", look);
      card.remove();
    },
  };
}
