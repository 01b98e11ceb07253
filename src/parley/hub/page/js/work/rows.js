/** Tasks, leases and agents as rows of the page. What runs out counts down in the row itself. */

import { avatar, senderName } from "../avatar.js";
import { exactTime, relativeTime, timeLeft } from "../time.js";
import { h, replace } from "../dom.js";
import { textNodes } from "../markdown/text.js";
import { topicHref } from "../router.js";

const STATUS_WORDS = { open: "open", claimed: "claimed", completed: "done", cancelled: "cancelled" };

/** The small sign that says how a task is. */
export function statusMark(status) {
  return h("span", { class: "work-status", dataset: { status } }, STATUS_WORDS[status] ?? status);
}

/** A place that says how long something goes on, and is kept true by `tickTimes`. */
export function countdown(endsAt) {
  const node = h("time", { class: "work-left", datetime: endsAt, title: exactTime(endsAt) });
  node.dataset.ends = endsAt;
  tick(node, Date.now());
  return node;
}

/** Sets all countdowns inside an element; the answer is whether one of them has ended. */
export function tickTimes(element, now = Date.now()) {
  let ended = false;
  for (const node of element.querySelectorAll("[data-ends]")) ended = tick(node, now) || ended;
  return ended;
}

function tick(node, now) {
  const text = timeLeft(node.dataset.ends, now);
  if (node.textContent !== text) node.textContent = text;
  const isOver = Date.parse(node.dataset.ends) <= now;
  node.dataset.over = String(isOver);
  return isOver;
}

/** The buttons for what can be done with a task now, by the person of this name. */
export function taskButtons(task, me, actions) {
  const button = (label, run, kind = "") =>
    h(
      "button",
      { type: "button", class: `button button-small ${kind}`, "aria-label": `${label}: ${task.title}`, onClick: run },
      label,
    );
  if (task.status === "open") {
    return [button("Claim", () => actions.claim(task)), button("Cancel", () => actions.cancel(task), "button-quiet")];
  }
  if (task.status !== "claimed") return [];
  if (task.holder === me) {
    return [
      button("Complete", () => actions.complete(task), "button-primary"),
      button("Release", () => actions.release(task), "button-quiet"),
    ];
  }
  return [
    button("Take over", () => actions.takeOver(task)),
    button("Cancel", () => actions.cancel(task), "button-quiet"),
  ];
}

export function createTaskRow(app, actions, task) {
  const node = h("li", { class: "work-row", dataset: { taskId: task.id } });
  updateTaskRow(app, actions, node, task);
  return node;
}

export function updateTaskRow(app, actions, node, task) {
  const me = app.prefs.get("name");
  const channel = app.store.channels.get(task.channel_id)?.name ?? "";
  const shown = JSON.stringify([task, me, channel]);
  if (node.shown === shown) return;
  node.shown = shown;
  const who =
    task.status === "claimed"
      ? [senderName(task.holder), " · ", countdown(task.lease_expires_at)]
      : task.status === "completed"
        ? [senderName(task.holder ?? task.created_by), " · ", ago(task.completed_at)]
        : [`by ${task.created_by} · `, ago(task.created_at)];
  const more = task.status === "completed" ? task.result : task.description;
  replace(
    node,
    h(
      "div",
      { class: "work-main" },
      h(
        "div",
        { class: "work-title" },
        statusMark(task.status),
        h("a", { href: topicHref(task.topic_id), dir: "auto" }, textNodes(task.title)),
      ),
      h("div", { class: "work-facts" }, channel === "" ? null : [h("span", null, channel), " · "], who),
      more ? h("p", { class: "work-text", dir: "auto" }, textNodes(more)) : null,
    ),
    h("div", { class: "work-buttons" }, taskButtons(task, me, actions)),
  );
}

export function createLeaseRow(app, actions, lease) {
  const node = h("li", { class: "work-row", dataset: { leaseId: lease.id } });
  updateLeaseRow(app, actions, node, lease);
  return node;
}

export function updateLeaseRow(app, actions, node, lease) {
  const me = app.prefs.get("name");
  const shown = JSON.stringify([lease, me]);
  if (node.shown === shown) return;
  node.shown = shown;
  const patterns = lease.patterns.map((pattern) => h("code", { dir: "auto" }, textNodes(pattern)));
  replace(
    node,
    h(
      "div",
      { class: "work-main" },
      h("div", { class: "work-title work-patterns" }, patterns),
      h(
        "div",
        { class: "work-facts" },
        senderName(lease.holder),
        ` · ${lease.mode} · `,
        countdown(lease.expires_at),
      ),
      lease.reason ? h("p", { class: "work-text", dir: "auto" }, textNodes(lease.reason)) : null,
    ),
    h(
      "div",
      { class: "work-buttons" },
      lease.holder === me
        ? h(
            "button",
            {
              type: "button",
              class: "button button-small",
              "aria-label": `Release: ${lease.patterns.join(", ")}`,
              onClick: () => actions.releaseLease(lease),
            },
            "Release",
          )
        : null,
    ),
  );
}

export function createAgentRow(app, agent) {
  const node = h("li", { class: "agent-row", dataset: { agent: agent.name } });
  updateAgentRow(app, node, agent);
  return node;
}

export function updateAgentRow(_app, node, agent) {
  const seen = agent.state === "active" ? `seen ${spoken(relativeTime(agent.last_seen_at))}` : "gone";
  const shown = JSON.stringify([agent, seen]);
  if (node.shown === shown) return;
  node.shown = shown;
  const about = [agent.program, agent.model].filter(Boolean).join(", ");
  node.dataset.state = agent.state;
  replace(
    node,
    h("span", { class: "agent-dot", "aria-hidden": "true" }),
    avatar(agent.name),
    h(
      "span",
      { class: "agent-names" },
      h("span", { class: "agent-name", dir: "auto" }, textNodes(agent.name)),
      about === "" ? null : h("span", { class: "agent-about", dir: "auto" }, textNodes(about)),
    ),
    h("time", { class: "agent-seen", datetime: agent.last_seen_at, title: exactTime(agent.last_seen_at) }, seen),
  );
}

function ago(time) {
  return h("time", { datetime: time, title: exactTime(time) }, spoken(relativeTime(time)));
}

/** "5m" reads as a length; in a sentence it is "5m ago". */
function spoken(text) {
  return /^\d+[mhd]$/.test(text) ? `${text} ago` : text;
}
