/** Choosing a topic of a channel by typing, or making the one that is not there yet. */

import { errorNotice } from "../errors.js";
import { h, replace } from "../dom.js";
import { newKey } from "../api.js";

const SHOWN_MAX = 30;

/** `onPick(topic)` is told each choice; null when the choice was taken back. */
export function topicPicker(app, { channelId, exceptId, onPick }) {
  let pickedId = null;
  const input = h("input", {
    type: "search",
    class: "input",
    "aria-label": "Find or name a topic",
    placeholder: "Find a topic, or name a new one",
    maxlength: "200",
    autocomplete: "off",
    onInput: () => draw(),
    // Enter belongs to the list here, not to the dialog.
    onKeydown: (event) => event.key === "Enter" && event.preventDefault(),
  });
  const list = h("div", { class: "picker-list" });
  const problem = h("div");
  const element = h("fieldset", { class: "choices" }, h("legend", null, "Where to"), input, list, problem);

  function draw() {
    const text = input.value.trim();
    const known = app.store.topicsOf(channelId).filter((topic) => topic.id !== exceptId);
    const found = known.filter((topic) => topic.title.toLowerCase().includes(text.toLowerCase())).slice(0, SHOWN_MAX);
    const isNew = text !== "" && !app.store.topicsOf(channelId).some((topic) => topic.title === text);
    const rows = found.map((topic) =>
      h(
        "label",
        { class: "choice" },
        h("input", {
          type: "radio",
          name: "topic",
          value: topic.id,
          checked: topic.id === pickedId,
          onChange: () => pick(topic),
        }),
        h("span", null, topic.title),
      ),
    );
    const make = h(
      "button",
      { type: "button", class: "button", onClick: () => create(text) },
      `Create topic “${text}”`,
    );
    replace(list, rows, isNew ? make : null);
    if (found.length < SHOWN_MAX && app.store.hasMoreTopics(channelId)) {
      app.store.loadTopics(channelId).then(draw, (error) => replace(problem, errorNotice(error)));
    }
  }

  function pick(topic) {
    pickedId = topic.id;
    onPick(topic);
  }

  async function create(title) {
    try {
      const { topic } = await app.api.post("/api/v1/topics", { channel_id: channelId, title }, { key: newKey() });
      app.store.keepTopic(topic);
      replace(problem);
      pick(topic);
      draw();
    } catch (error) {
      replace(problem, errorNotice(error));
    }
  }

  draw();
  return { element };
}
