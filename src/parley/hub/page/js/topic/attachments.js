/**
 * A topic's attachments as cards in a panel: links, files, decisions, whatever agents and plugins put there. Only kinds
 * that hold a link become one, and only for http and https; everything else is shown as names and values.
 */

import { errorNotice } from "../errors.js";
import { exactTime, relativeTime } from "../time.js";
import { h, reconcile, replace } from "../dom.js";
import { icon } from "../icons.js";

const SHOWN_FIRST = 50;
const SHOWN_MORE = 200;
const VALUE_CHARS_MAX = 600;

/** `onCount(n)` is told how many there are; `goTo(id)` shows the message that one came from. */
export function mountAttachments(app, topicId, { onCount, goTo, onClose }) {
  let attachments = [];
  let most = SHOWN_FIRST;
  const list = h("ul", { class: "card-list" });
  const problem = h("div");
  const more = h(
    "button",
    { type: "button", class: "button", hidden: true, onClick: () => ((most += SHOWN_MORE), draw()) },
    "Show more",
  );
  const element = h(
    "aside",
    { class: "panel", "aria-label": "Attachments", hidden: true },
    h(
      "div",
      { class: "panel-head" },
      h("h2", null, "Attachments"),
      h(
        "button",
        { type: "button", class: "icon-button", "aria-label": "Hide attachments", onClick: onClose },
        icon("close"),
      ),
    ),
    h("div", { class: "panel-body" }, problem, list, more),
  );

  function draw() {
    reconcile(
      list,
      attachments.slice(0, most),
      ({ id }) => id,
      (attachment) => h("li", null, card(attachment, goTo)),
    );
    more.hidden = attachments.length <= most;
    onCount(attachments.length);
  }

  function take(found) {
    const known = new Set(attachments.map(({ id }) => id));
    const fresh = found.filter(({ id }) => !known.has(id));
    attachments = [...fresh, ...attachments].sort((a, b) => (a.id < b.id ? 1 : -1));
    draw();
  }

  async function load() {
    try {
      take((await app.api.get(`/api/v1/topics/${topicId}/attachments`)).attachments);
      replace(problem);
    } catch (error) {
      replace(problem, errorNotice(error));
    }
  }

  const stops = [
    app.feed.onEvent((event) => {
      if (event.name === "topic.attachment_added" && event.data.attachment.topic_id === topicId)
        take([event.data.attachment]);
    }),
    app.feed.onState((state) => state === "live" && problem.hasChildNodes() && load()),
  ];
  void load();
  return { element, unmount: () => stops.forEach((stop) => stop()) };
}

function card({ kind, key, value_json: value, source_message_id: sourceId, created_at: at }, goTo) {
  const url = webUrl(value.url);
  const source =
    sourceId === null
      ? null
      : h("button", { type: "button", class: "link-button", onClick: () => goTo(sourceId) }, "Go to message");
  return h(
    "div",
    { class: "card", dataset: { kind } },
    h(
      "div",
      { class: "card-head" },
      h("span", { class: "card-kind" }, kind),
      key ? h("span", { class: "card-key" }, key) : null,
    ),
    url === null ? values(value) : linkOf(url, value),
    h("div", { class: "card-foot" }, h("time", { datetime: at, title: exactTime(at) }, relativeTime(at)), source),
  );
}

function linkOf(url, value) {
  const text =
    typeof value.title === "string" && value.title !== ""
      ? value.title
      : `${url.host}${url.pathname === "/" ? "" : url.pathname}`;
  const rest = Object.fromEntries(
    Object.entries(value).filter(([name]) => !["url", "title", "description"].includes(name)),
  );
  return [
    h("a", { class: "card-link", href: url.href, target: "_blank", rel: "noopener noreferrer", title: url.href }, text),
    h("div", { class: "card-host" }, url.host),
    typeof value.description === "string" ? h("p", { class: "card-text" }, value.description) : null,
    Object.keys(rest).length > 0 ? values(rest) : null,
  ];
}

function values(value) {
  return h(
    "dl",
    { class: "card-values" },
    Object.entries(value).map(([name, one]) => [
      h("dt", null, name),
      h("dd", null, short(typeof one === "string" ? one : JSON.stringify(one))),
    ]),
  );
}

function short(text) {
  return text.length > VALUE_CHARS_MAX ? `${text.slice(0, VALUE_CHARS_MAX)}…` : text;
}

/** The address if it is one of the web, else null. */
function webUrl(text) {
  if (typeof text !== "string") return null;
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url : null;
  } catch {
    return null;
  }
}
