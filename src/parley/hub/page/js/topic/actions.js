/** What can be done with one message, from its menu or by key. */

import { moveMessage } from "./move.js";
import { needName } from "../identity.js";
import { newKey } from "../api.js";
import { openMenu } from "../menu.js";
import { showHistory } from "./history.js";
import { topicHref } from "../router.js";
import { copyText } from "../copy.js";
import { headOf } from "./quote_node.js";

/**
 * `get(id)` gives the message as it is now; `reply(message)`, `edit(message)` and `goTo(id)` belong to the view;
 * `take(message)` gets what the hub answered.
 */
export function createActions(app, { get, reply, edit, goTo, take }) {
  async function remove(id) {
    const message = get(id);
    const actor = await needName(app);
    if (message === null || actor === null) return;
    const head = headOf(message.content_raw);
    const isSure = await app.dialog.confirm({
      title: "Delete this message?",
      text: `“${head}” by ${message.sender} will be replaced by a note that you deleted it. This cannot be undone.`,
      action: "Delete",
      danger: true,
    });
    if (!isSure) return;
    try {
      take((await app.api.patch(`/api/v1/messages/${id}`, { op: "delete", actor }, { key: newKey() })).message);
    } catch (error) {
      await app.dialog.tell({ title: "The message was not deleted", error });
    }
  }

  const actions = {
    goTo,
    reply: (id) => reply(get(id)),
    edit: (id) => edit(get(id)),
    move: (id) => moveMessage(app, get(id)),
    remove,
    history: (id) => showHistory(app, id),
    copyLink: (id, element) => copyText(linkTo(get(id)), element),
    menu(id, button) {
      const message = get(id);
      if (message === null) return;
      const isThere = message.deleted_at === null;
      const items = [
        { label: "Reply", icon: "reply", run: () => actions.reply(id) },
        isThere ? { label: "Edit", icon: "edit", run: () => actions.edit(id) } : null,
        { label: "Move…", icon: "move", run: () => actions.move(id) },
        { label: "Copy link", icon: "link", run: () => actions.copyLink(id, button) },
        isThere ? { label: "Copy text", icon: "copy", run: () => copyText(message.content_raw, button) } : null,
        { label: "History", icon: "history", run: () => actions.history(id) },
        isThere ? { label: "Delete…", icon: "trash", danger: true, run: () => remove(id) } : null,
      ];
      openMenu(button, items, { label: "Message actions" });
    },
  };
  return actions;
}

function linkTo(message) {
  return new URL(topicHref(message.topic_id, message.id), location.href).href;
}
