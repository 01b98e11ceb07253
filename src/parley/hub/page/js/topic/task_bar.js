/** The bar over a topic that is the companion of a task: how the task is, who has it and until when, what can be done. */

import { senderName } from "../avatar.js";
import { countdown, statusMark, taskButtons, tickTimes } from "../work/rows.js";
import { createWorkActions } from "../work/actions.js";
import { h, replace } from "../dom.js";

const TICK_MS = 1000;
const ASK_AGAIN_MS = 5000;

export function mountTaskBar(app, topicId) {
  const actions = createWorkActions(app);
  const element = h("div", { class: "task-bar", role: "region", "aria-label": "Task", hidden: true });
  let shown = "";
  let asked = Date.now();

  function draw() {
    const task = app.board.taskOf(topicId);
    const me = app.prefs.get("name");
    const now = JSON.stringify([task, me]);
    if (now === shown) return;
    shown = now;
    element.hidden = task === null;
    if (task === null) return;
    const who =
      task.status === "claimed"
        ? h("span", { class: "task-bar-who" }, senderName(task.holder), " · ", countdown(task.lease_expires_at))
        : null;
    replace(element, statusMark(task.status), who, h("div", { class: "work-buttons" }, taskButtons(task, me, actions)));
  }

  function tick() {
    if (document.visibilityState !== "visible" || element.hidden) return;
    if (!tickTimes(element) || Date.now() - asked < ASK_AGAIN_MS) return;
    asked = Date.now();
    app.board.loadTaskOf(topicId).catch(() => {});
  }

  const ticking = setInterval(tick, TICK_MS);
  const stops = [app.board.onChange(draw), app.prefs.onChange((name) => name === "name" && draw())];
  app.board.loadTaskOf(topicId).catch(() => {});
  draw();
  return {
    element,
    unmount() {
      clearInterval(ticking);
      for (const stop of stops) stop();
    },
  };
}
