/** The versions of a message, newest first, each with what changed from the one before. */

import { diffNodes } from "../diff_nodes.js";
import { errorNotice } from "../errors.js";
import { exactTime, mediumTime } from "../time.js";
import { h, replace } from "../dom.js";
import { topicHref } from "../router.js";

const TITLES = { created: "Posted", edited: "Edited", moved: "Moved", deleted: "Deleted" };

export async function showHistory(app, messageId) {
  const body = h("div", { class: "history" }, h("span", { class: "spinner", role: "img", "aria-label": "Loading" }));
  app.dialog.open({ title: "History", wide: true, body });
  try {
    const { versions } = await app.api.get(`/api/v1/messages/${messageId}/history`);
    replace(
      body,
      h(
        "ol",
        { class: "history-list" },
        entries(versions)
          .map((entry) => entryNode(app, entry))
          .reverse(),
      ),
    );
  } catch (error) {
    replace(body, errorNotice(error));
  }
}

/** Each version with the text before it, skipping moves, which change none. */
function entries(versions) {
  let before = null;
  return versions.map((version) => {
    const entry = { ...version, before };
    if (version.content_raw !== null) before = version.content_raw;
    return entry;
  });
}

function entryNode(app, { version, ts, change, content_raw: content, topic_id: topicId, actor, before }) {
  const by = actor === null ? "" : ` by ${actor}`;
  return h(
    "li",
    { class: "history-entry", dataset: { version } },
    h(
      "h3",
      null,
      `${TITLES[change] ?? change}${by}`,
      h("span", { class: "history-when", title: exactTime(ts) }, ` · version ${version} · ${mediumTime(ts)}`),
    ),
    change === "moved" && topicId !== null ? movedTo(app, topicId) : null,
    change === "moved" ? null : textOf(content, before),
  );
}

function textOf(content, before) {
  if (content === null)
    return h("p", { class: "tombstone" }, "The text is gone: deleting a message takes it from its history.");
  return h("div", { class: "diff" }, before === null ? content : diffNodes(before, content));
}

function movedTo(app, topicId) {
  const link = h("a", { href: topicHref(topicId) }, app.store.topics.get(topicId)?.title ?? topicId);
  app.store.topic(topicId).then(
    (topic) => (link.textContent = topic.title),
    () => {},
  );
  return h("p", null, "To ", link);
}
