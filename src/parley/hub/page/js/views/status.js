/**
 * How the hub is: what is wrong, in words, then rates, times and sizes as small charts, then the plugins.
 *
 * It asks every two seconds while it is seen, and not at all otherwise. When the hub does not answer it says so, keeps
 * what it last knew, and asks on.
 */

import { h, replace } from "../dom.js";
import { errorNotice } from "../errors.js";
import { textNodes } from "../markdown/text.js";
import { createPlugins, problemsOf } from "../status/plugins.js";
import { Reading } from "../status/metrics.js";
import { createTiles } from "../status/tiles.js";
import { count, duration } from "../status/units.js";

const EVERY_MS = 2000;

export function mount(root, app) {
  const view = new StatusView(app);
  root.append(view.element);
  app.setTitle("Status");
  view.start();
  return view;
}

class StatusView {
  constructor(app) {
    this.app = app;
    this.timer = null;
    this.asking = null;
    this.tiles = createTiles();
    this.plugins = createPlugins(app);
    this.health = h("div", { class: "health", role: "status" });
    this.facts = h("p", { class: "page-note" });
    this.notice = h("div");
    this.element = h(
      "div",
      { class: "page status" },
      h("div", { class: "page-head" }, h("div", null, h("h1", null, "Status"), this.facts)),
      this.health,
      this.notice,
      this.tiles.element,
      this.plugins.element,
    );
    this.onVisibility = () => (document.visibilityState === "visible" ? this.start() : this.stop());
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  unmount() {
    this.stop();
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.element.remove();
  }

  start() {
    this.stop();
    this.tiles.forget();
    void this.poll();
  }

  stop() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
  }

  async poll() {
    const asking = (this.asking = new AbortController());
    const { api } = this.app;
    const { signal } = asking;
    try {
      const [status, text, plugins] = await Promise.all([
        api.get("/api/v1/status", null, { signal }),
        api.text("/metrics", { signal }),
        api.get("/api/v1/plugins", null, { signal }),
      ]);
      if (signal.aborted) return;
      this.tiles.push(new Reading(text, performance.now()), status);
      this.plugins.draw(plugins.plugins);
      this.drawHealth(status, problemsOf(plugins.plugins));
      replace(this.notice);
    } catch (error) {
      if (signal.aborted) return;
      this.tiles.forget();
      if (this.notice.childNodes.length === 0) replace(this.notice, errorNotice(error));
    }
    this.timer = setTimeout(() => this.poll(), EVERY_MS);
  }

  drawHealth(status, pluginProblems) {
    const { session } = this.app.store;
    const problems = [...status.problems, ...pluginProblems];
    const text = JSON.stringify(problems);
    const facts = [`up for ${duration(status.uptime_seconds)}`, `newest event ${count(status.latest_event_id)}`];
    this.facts.textContent = [`Parley ${session.version}`, ...facts].join(", ");
    // A live region: written only when its words change.
    if (this.health.dataset.problems === text) return;
    this.health.dataset.problems = text;
    this.health.dataset.tone = status.problems.length > 0 ? "danger" : problems.length > 0 ? "warn" : "good";
    const words =
      problems.length === 0
        ? "All is well."
        : h(
            "ul",
            null,
            problems.map((problem) => h("li", null, textNodes(problem))),
          );
    replace(this.health, h("span", { class: "health-dot", "aria-hidden": "true" }), words);
  }
}
