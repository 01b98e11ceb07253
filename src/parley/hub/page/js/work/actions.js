/** What a person does with tasks and leases, in the person's own name. Refusals are told in words. */

import { keyPerRequest, newKey } from "../api.js";
import { needName } from "../identity.js";

const TITLE_CHARS_MAX = 200;
const TEXT_CHARS_MAX = 2000;

export function createWorkActions(app) {
  const { api, board, dialog } = app;

  /** Sends one change of a task; the row that comes back is shown at once. */
  async function change(task, body, { key = newKey() } = {}) {
    const answer = await api.patch(`/api/v1/tasks/${encodeURIComponent(task.id)}`, body, { key });
    board.keep("tasks", answer.task);
    return answer.task;
  }

  /** Does something in the person's name; what was refused is told, and the board looked at again. */
  async function inMyName(title, work) {
    const name = await needName(app);
    if (name === null) return;
    try {
      await work(name);
    } catch (error) {
      void board.load().catch(() => {});
      await dialog.tell({ title, error });
    }
  }

  return {
    async create(channelId) {
      const keyOf = keyPerRequest();
      const name = await needName(app);
      if (name === null) return;
      const made = await dialog.ask({
        title: "New task",
        action: "Create task",
        fields: [
          { name: "title", label: "Title", maxLength: TITLE_CHARS_MAX, required: true },
          {
            name: "description",
            label: "Description",
            maxLength: TEXT_CHARS_MAX,
            multiline: true,
            hint: "What is to be done, and when it counts as done. Optional.",
          },
        ],
        save: async ({ title, description }) => {
          const body = { title, description: description || null, channel_id: channelId, created_by: name };
          return (await api.post("/api/v1/tasks", body, { key: keyOf(body) })).task;
        },
      });
      if (made !== undefined) board.keep("tasks", made);
    },

    claim: (task) =>
      inMyName("Not claimed", (holder) => change(task, { op: "claim", holder })),

    release: (task) =>
      inMyName("Not released", (holder) => change(task, { op: "release", holder, generation: task.generation })),

    async complete(task) {
      const holder = await needName(app);
      if (holder === null) return;
      const keyOf = keyPerRequest();
      await dialog.ask({
        title: "Complete task",
        action: "Complete",
        fields: [
          { name: "result", label: "Result", maxLength: TEXT_CHARS_MAX, multiline: true, hint: "What came of it." },
        ],
        save: ({ result }) => {
          const body = { op: "complete", holder, generation: task.generation, result: result || null };
          return change(task, body, { key: keyOf(body) });
        },
      });
    },

    async cancel(task) {
      const actor = await needName(app);
      if (actor === null) return;
      const keyOf = keyPerRequest();
      await dialog.ask({
        title: `Cancel “${task.title}”`,
        action: "Cancel task",
        fields: [{ name: "reason", label: "Reason", maxLength: TEXT_CHARS_MAX, hint: "Optional; the log keeps it." }],
        save: ({ reason }) => {
          const body = { op: "cancel", actor, reason: reason || null };
          return change(task, body, { key: keyOf(body) });
        },
      });
    },

    /** Takes a task from whoever holds it. A holder whose claim goes on is only passed over by force, with a reason. */
    async takeOver(task) {
      const holder = await needName(app);
      if (holder === null) return;
      const keyOf = keyPerRequest();
      await dialog.ask({
        title: `Take over from ${task.holder}`,
        action: "Take over",
        fields: [
          {
            name: "reason",
            label: "Reason",
            maxLength: TEXT_CHARS_MAX,
            required: true,
            hint: `${task.holder} is told that its claim is over. The log keeps the reason.`,
          },
        ],
        save: ({ reason }) => {
          const body = { op: "take_over", holder, reason, force: true };
          return change(task, body, { key: keyOf(body) });
        },
      });
    },

    releaseLease: (lease) =>
      inMyName("Not released", async (holder) => {
        const body = { op: "release", holder, generation: lease.generation };
        const answer = await api.patch(`/api/v1/leases/${encodeURIComponent(lease.id)}`, body, { key: newKey() });
        board.keep("leases", answer.lease);
      }),
  };
}
