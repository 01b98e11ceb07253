/**
 * Two people changed one message. Shows the text as it is now beside the person's own, and lets them keep that one, put
 * theirs in its place, or write a third. Whatever they decide is again decided for one version: if the message changes
 * once more meanwhile, they see that too.
 */

import { diffNodes } from "../diff_nodes.js";
import { fitHeight } from "./fit_height.js";
import { errorNotice } from "../errors.js";
import { h, replace } from "../dom.js";
import { newKey } from "../api.js";
import { tidy } from "./tidy.js";

/**
 * Saves a text that was written for `base`. Resolves to the message as it is then, or to null if it had been changed
 * and the person has not decided.
 */
export async function saveEdit(app, base, content) {
  const key = newKey();
  const body = { op: "edit", content_raw: content, expected_version: base.version };
  try {
    return (await app.api.patch(`/api/v1/messages/${base.id}`, body, { key })).message;
  } catch (error) {
    if (error.code !== "VERSION_CONFLICT") throw error;
  }
  const { message: theirs } = await app.api.get(`/api/v1/messages/${base.id}`);
  if (theirs.deleted_at !== null) throw deletedMeanwhile(theirs);
  // The answer to an earlier try was lost, or someone wrote the very same.
  if (theirs.content_raw === content) return theirs;
  // A move raises the version as well; when the text is the one that was edited, there is nothing to decide.
  if (theirs.content_raw === base.content_raw) return saveEdit(app, theirs, content);
  return resolveConflict(app, { base, theirs, mine: content });
}

function deletedMeanwhile({ deleted_by: who }) {
  const error = new Error(`${who} deleted this message meanwhile`);
  error.hint = "Copy your text if you still need it.";
  return error;
}

async function resolveConflict(app, { base, theirs, mine }) {
  const merged = h("textarea", {
    class: "input editor-input",
    "aria-label": "Merged text",
    value: mine,
    rows: "5",
    onInput: () => fitHeight(merged),
  });
  const merge = h("div", { class: "field", hidden: true }, h("span", { class: "label" }, "Merged text"), merged);
  const problem = h("div");
  const save = async (text) => {
    try {
      const saved = await saveEdit(app, theirs, text);
      if (saved !== null) opened.close(saved);
    } catch (error) {
      replace(problem, errorNotice(error));
    }
  };
  const keep = h("button", { type: "button", class: "button", onClick: () => opened.close(theirs) }, "Keep theirs");
  const overwrite = h(
    "button",
    { type: "button", class: "button button-primary", onClick: () => save(merge.hidden ? mine : tidy(merged.value)) },
    "Overwrite with mine",
  );
  const byHand = h(
    "button",
    {
      type: "button",
      class: "button",
      onClick: () => {
        merge.hidden = false;
        byHand.hidden = true;
        overwrite.textContent = "Save merged text";
        fitHeight(merged);
        merged.focus();
      },
    },
    "Merge by hand",
  );
  const opened = app.dialog.open({
    title: "This message was changed meanwhile",
    wide: true,
    body: [
      h(
        "p",
        null,
        `You edited version ${base.version}; it is now at version ${theirs.version}. Changes since then are marked.`,
      ),
      h(
        "div",
        { class: "sides" },
        side("Theirs, as it is now", base.content_raw, theirs.content_raw, "conflict-theirs"),
        side("Yours", base.content_raw, mine, "conflict-mine"),
      ),
      merge,
      problem,
    ],
    actions: [keep, byHand, overwrite],
  });
  return (await opened.closed) ?? null;
}

function side(title, before, after, testid) {
  return h(
    "section",
    { class: "side", dataset: { testid } },
    h("h3", null, title),
    h("div", { class: "diff" }, diffNodes(before, after)),
  );
}
