/** Plugin health as a table, with the way to let plugins run over history again. */

import { h, replace } from "../dom.js";
import { textNodes } from "../markdown/text.js";
import { count, duration } from "./units.js";

const STATES = {
  ready: ["Ready", "good"],
  paused: ["Paused", "warn"],
  untrusted: ["Not trusted", "warn"],
  broken: ["Broken", "danger"],
  disabled: ["Off", "plain"],
};
const RUNNING = new Set(["ready", "paused"]);
const COLUMNS = ["Plugin", "State", "Waiting", "Oldest", "Failed", "Runs", "Failures", "Last error"];

/** What is wrong with plugins, one sentence for each that has a problem. */
export function problemsOf(plugins) {
  return plugins
    .map((plugin) => [plugin.name, problemOf(plugin)])
    .filter(([, problem]) => problem)
    .map(([name, problem]) => `Plugin ${name}: ${problem}`);
}

function problemOf({ problem, state, failed }) {
  if (problem) return problem;
  if (state === "paused") return "it fails again and again, so it rests before it is tried again";
  return failed > 0 ? `it failed for ${count(failed)} ${failed === 1 ? "message" : "messages"}` : null;
}

export function createPlugins(app) {
  const body = h("div");
  const again = h(
    "button",
    { type: "button", class: "button", hidden: true, onClick: () => reEnrich(app, null) },
    "Run again over history",
  );
  let shown = "";
  return {
    element: h(
      "section",
      { class: "status-section" },
      h("div", { class: "status-head" }, h("h2", null, "Plugins"), again),
      body,
    ),
    draw(plugins) {
      // Only if something changed: a button that is being pressed must not be replaced.
      const now = JSON.stringify(plugins);
      if (now === shown) return;
      shown = now;
      again.hidden = plugins.length === 0;
      replace(body, plugins.length === 0 ? none() : table(app, plugins));
    },
  };
}

function none() {
  return h(
    "p",
    { class: "status-note" },
    "No plugins. ",
    h("code", null, "[[plugins]]"),
    " in parley.toml adds some; ",
    h("code", null, "parley plugin new"),
    " writes one.",
  );
}

function table(app, plugins) {
  const head = h(
    "thead",
    null,
    h(
      "tr",
      null,
      COLUMNS.map((name) => h("th", { scope: "col" }, name)),
      h("th", null, h("span", { class: "visually-hidden" }, "Actions")),
    ),
  );
  const rows = h(
    "tbody",
    null,
    plugins.map((plugin) => row(app, plugin)),
  );
  return h(
    "div",
    { class: "status-table", role: "group", "aria-label": "Plugin health", tabindex: "0" },
    h("table", null, head, rows),
  );
}

function row(app, plugin) {
  const [state, tone] = STATES[plugin.state] ?? [plugin.state, "plain"];
  const cells = [
    h(
      "td",
      null,
      h("span", { class: "state", dataset: { tone } }, state),
      plugin.problem ? h("span", { class: "plugin-problem" }, textNodes(plugin.problem)) : null,
    ),
    number(count(plugin.waiting)),
    number(plugin.waiting > 0 ? duration(plugin.oldest_waiting_seconds) : "–"),
    number(count(plugin.failed)),
    number(count(plugin.runs_total)),
    number(count(plugin.failures_total)),
    h("td", { class: "plugin-error" }, textNodes(plugin.last_error ?? "–")),
    h("td", null, RUNNING.has(plugin.state) ? againButton(app, plugin.name) : null),
  ];
  const facts = [plugin.type, plugin.source, plugin.network ? "network allowed" : null].filter(Boolean).join(" · ");
  return h(
    "tr",
    { dataset: { plugin: plugin.name } },
    h("th", { scope: "row" }, plugin.name, h("span", { class: "plugin-facts" }, facts)),
    cells,
  );
}

function againButton(app, name) {
  const props = { type: "button", class: "button button-quiet", "aria-label": `Run ${name} again` };
  return h("button", { ...props, onClick: () => reEnrich(app, name) }, "Run again");
}

function number(text) {
  return h("td", { class: "number" }, text);
}

async function reEnrich(app, name) {
  const queued = await app.dialog.ask({
    title: name === null ? "Run all plugins again" : `Run ${name} again`,
    action: "Queue",
    fields: [
      {
        name: "since",
        label: "After event",
        value: "0",
        hint: "Messages posted or edited after this event; 0 for all of history.",
        required: true,
      },
    ],
    save: async ({ since }) => {
      if (!/^\d{1,15}$/.test(since)) throw new Error("The number of an event is a whole number");
      const body = { since_event_id: Number(since), ...(name === null ? {} : { plugin_name: name }) };
      return (await app.api.post("/api/v1/plugins/re_enrich", body)).queued;
    },
  });
  if (queued !== undefined) app.announce(`${count(queued)} ${queued === 1 ? "job" : "jobs"} queued`);
}
