/**
 * Small charts: one line over the last minutes, drawn as SVG nodes, with its meaning in words for those who cannot see
 * it.
 */

import { h, s } from "./dom.js";

const WIDTH = 160;
const HEIGHT = 40;
const PAD = 2;
const POINTS_MIN = 20;

/** The newest values of something, oldest first; gaps are null. */
export class Series {
  constructor(length) {
    this.length = length;
    this.values = [];
  }

  push(value) {
    this.values.push(Number.isFinite(value) ? value : null);
    if (this.values.length > this.length) this.values.shift();
  }

  get last() {
    return this.values.at(-1) ?? null;
  }

  get known() {
    return this.values.filter((value) => value !== null);
  }
}

/** A line chart. `title` names what it shows, `format` writes a value for people. */
export class Sparkline {
  constructor({ title, format, length }) {
    this.title = title;
    this.format = format;
    this.length = length;
    this.area = s("path", { class: "spark-area" });
    this.line = s("path", { class: "spark-line" });
    // A line without length and with round ends: a circle would be stretched with the drawing.
    this.dot = s("path", { class: "spark-dot" });
    this.element = s(
      "svg",
      {
        class: "spark",
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${title}: no values yet`,
      },
      this.area,
      this.line,
      this.dot,
    );
  }

  /** Draws a series; a flat one lies in the lower part, so that change is seen as such. */
  draw(series, { fromZero = true } = {}) {
    const { known } = series;
    this.element.setAttribute("aria-label", this.summary(series));
    if (known.length === 0) return;
    const low = fromZero ? 0 : Math.min(...known);
    const high = Math.max(...known, low + Number.EPSILON);
    const spread = high - low > Number.EPSILON * 4 ? (high - low) * 1.08 : 1;
    // A young series fills the drawing sooner; a full one moves through it.
    const places = Math.max(series.values.length, Math.min(POINTS_MIN, this.length));
    const step = (WIDTH - 2 * PAD) / (places - 1);
    const first = places - series.values.length;
    const points = series.values.map((value, index) =>
      value === null
        ? null
        : [PAD + (first + index) * step, HEIGHT - PAD - ((value - low) / spread) * (HEIGHT - 2 * PAD)],
    );
    const runs = connected(points);
    this.line.setAttribute("d", runs.map(linePath).join(""));
    this.area.setAttribute(
      "d",
      runs.map((run) => `${linePath(run)}L${run.at(-1)[0]} ${HEIGHT}L${run[0][0]} ${HEIGHT}Z`).join(""),
    );
    const end = points.at(-1);
    this.dot.setAttribute("d", end ? linePath([end]) : "");
  }

  summary(series) {
    const { known } = series;
    if (known.length === 0) return `${this.title}: no values yet`;
    const now = series.last === null ? "unknown" : this.format(series.last);
    const [low, high] = [this.format(Math.min(...known)), this.format(Math.max(...known))];
    return `${this.title}: now ${now}, lowest ${low}, highest ${high}`;
  }
}

/** A chart with its name and its present value above it; `note` is a second line of words. */
export class Tile {
  constructor({ title, format, length, fromZero = true }) {
    this.series = new Series(length);
    this.format = format;
    this.fromZero = fromZero;
    this.value = h("span", { class: "tile-value" }, "–");
    this.note = h("span", { class: "tile-note" });
    this.spark = new Sparkline({ title, format, length });
    this.element = h(
      "div",
      { class: "tile", dataset: { tile: title } },
      h("span", { class: "tile-title" }, title),
      h("span", { class: "tile-line" }, this.value, this.note),
      this.spark.element,
    );
  }

  push(value, note = "") {
    this.series.push(value);
    this.value.textContent = this.series.last === null ? "–" : this.format(this.series.last);
    this.note.textContent = note;
    this.spark.draw(this.series, { fromZero: this.fromZero });
  }
}

function connected(points) {
  const runs = [];
  let run = null;
  for (const point of points) {
    if (point === null) run = null;
    else if (run === null) runs.push((run = [point]));
    else run.push(point);
  }
  return runs;
}

function linePath(points) {
  const ends = points.length === 1 ? [points[0], [points[0][0] + 0.01, points[0][1]]] : points;
  return ends.map(([x, y], index) => `${index === 0 ? "M" : "L"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
}
