/**
 * Moving messages to another topic of the channel: one, it and all later ones, or all. The hub says beforehand how many
 * that would be, and the button says so too.
 */

import { errorNotice } from "../errors.js";
import { mediumTime } from "../time.js";
import { h, replace } from "../dom.js";
import { keyPerRequest } from "../api.js";
import { topicPicker } from "./topic_picker.js";

const MODES = [
  ["one", "Only this message"],
  ["later", "This message and all later ones"],
  ["all", "All messages of the topic"],
];

export async function moveMessage(app, message) {
  let mode = "one";
  let target = null;
  let turn = 0;
  const keyOf = keyPerRequest();
  const preview = h("div", { class: "move-preview", role: "status", dataset: { testid: "move-preview" } });
  const problem = h("div");
  const submit = h("button", { type: "submit", class: "button button-primary", disabled: true }, "Move");
  const cancel = h("button", { type: "button", class: "button", onClick: () => opened.close() }, "Cancel");
  const choices = MODES.map(([value, label]) =>
    h(
      "label",
      { class: "choice" },
      h("input", {
        type: "radio",
        name: "mode",
        value,
        checked: value === mode,
        onChange: () => ((mode = value), look()),
      }),
      label,
    ),
  );
  const picker = topicPicker(app, {
    channelId: message.channel_id,
    exceptId: message.topic_id,
    onPick: (topic) => {
      target = topic;
      void look();
    },
  });

  /** Asks what would move, for the choice as it is now. */
  async function look() {
    const asked = (turn += 1);
    submit.disabled = true;
    replace(problem);
    if (target === null) return void replace(preview, "Choose where to move to.");
    try {
      const query = { mode, to_topic_id: target.id };
      const found = await app.api.get(`/api/v1/messages/${message.id}/move_preview`, query);
      const ends = await endsOf(found);
      if (asked !== turn) return;
      replace(preview, ...previewNodes(found, ends, target));
      submit.textContent = found.count === 1 ? "Move 1 message" : `Move ${found.count.toLocaleString()} messages`;
      submit.disabled = found.count === 0;
    } catch (error) {
      if (asked === turn) replace(problem, errorNotice(error));
    }
  }

  function endsOf({ first_message_id: first, last_message_id: last }) {
    const ids = first === null ? [] : [...new Set([first, last])];
    return Promise.all(ids.map(async (id) => (await app.api.get(`/api/v1/messages/${id}`)).message));
  }

  async function move() {
    if (target === null || submit.disabled) return;
    submit.disabled = true;
    const body = { op: "move_topic", to_topic_id: target.id, mode, expected_version: message.version };
    try {
      opened.close(await app.api.patch(`/api/v1/messages/${message.id}`, body, { key: keyOf(body) }));
    } catch (error) {
      submit.disabled = false;
      if (error.code === "VERSION_CONFLICT") message = (await app.api.get(`/api/v1/messages/${message.id}`)).message;
      replace(problem, errorNotice(error));
    }
  }

  const opened = app.dialog.open({
    title: "Move to another topic",
    body: [
      h("fieldset", { class: "choices" }, h("legend", null, "What moves"), choices),
      picker.element,
      preview,
      problem,
    ],
    actions: [cancel, submit],
    onSubmit: move,
  });
  void look();
  const done = await opened.closed;
  if (done !== undefined) app.announce(`Moved ${done.affected_count} to ${target.title}`);
}

function previewNodes({ count }, ends, target) {
  if (count === 0) return ["Nothing would move: it is there already."];
  const [first, last = first] = ends;
  const what = count === 1 ? "1 message" : `${count.toLocaleString()} messages`;
  const range =
    count === 1
      ? `by ${first.sender}, ${mediumTime(first.created_at)}`
      : `from ${first.sender}, ${mediumTime(first.created_at)}, to ${last.sender}, ${mediumTime(last.created_at)}`;
  return [h("strong", null, what), ` will move to `, h("strong", null, target.title), `: ${range}.`];
}
