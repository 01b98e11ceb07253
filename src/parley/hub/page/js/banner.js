/** Says, quietly, when the page is not live: connection lost, catching up, or no hub at this address any more. */

import { h, replace } from "./dom.js";

/** Most losses are over before a person could read of them. */
const SHOW_AFTER_MS = 400;

export function mountBanner(app) {
  const element = h("div", { class: "banner", role: "status", dataset: { testid: "connection" } });
  let timer = null;

  function render() {
    clearTimeout(timer);
    const content = contentFor(app.feed);
    element.dataset.state = app.feed.state;
    if (content === null) {
      replace(element);
      element.hidden = true;
      return;
    }
    timer = setTimeout(
      () => {
        element.hidden = false;
        replace(element, content);
      },
      element.hidden && app.feed.state !== "gone" ? SHOW_AFTER_MS : 0,
    );
  }

  function contentFor(feed) {
    const again = h("button", { type: "button", class: "link-button", onClick: () => feed.retryNow() }, "Try now");
    if (feed.state === "lost") return ["Connection lost, trying again… ", again];
    if (feed.state === "catching-up") return ["Catching up…"];
    if (feed.state !== "gone") return null;
    const why =
      feed.reason === "another-hub"
        ? "Another workspace's hub answers at this address now. "
        : "The hub does not answer at this address. It may have stopped, or restarted on another port. ";
    return [
      why,
      "To go on, run ",
      h("code", null, "parley ui"),
      " in the workspace: it opens the page, logged in. ",
      again,
    ];
  }

  element.hidden = true;
  const off = app.feed.onState(render);
  return {
    element,
    unmount() {
      off();
      clearTimeout(timer);
    },
  };
}
