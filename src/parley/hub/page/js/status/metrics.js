/**
 * Reads Prometheus' text form, and what happened between two readings of it.
 *
 * Counters only grow, so a rate is a difference over a time; a counter that shrank belongs to a hub that was started
 * again, and everything it counts is new. Quantiles come from the buckets of a histogram, evenly spread within a
 * bucket.
 */

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** One reading: samples by name. */
export class Reading {
  constructor(text, atMs) {
    this.atMs = atMs;
    this.samples = new Map();
    for (const line of text.split("\n")) {
      const found = line.startsWith("#") ? null : SAMPLE.exec(line);
      if (!found) continue;
      const [, name, labels = "", value] = found;
      if (!this.samples.has(name)) this.samples.set(name, []);
      this.samples.get(name).push({ labels: labelsOf(labels), value: value === "+Inf" ? Infinity : Number(value) });
    }
  }

  /** The sum of a metric's samples for which `fits(labels)`. */
  total(name, fits = () => true) {
    return (this.samples.get(name) ?? []).reduce((sum, { labels, value }) => (fits(labels) ? sum + value : sum), 0);
  }

  /** A metric's value, or null if the hub does not have it. */
  value(name) {
    return this.samples.has(name) ? this.total(name) : null;
  }

  /** Cumulative counts by upper bound, over all label sets that fit, in the order of bounds. */
  buckets(name, fits = () => true) {
    const counts = new Map();
    for (const { labels, value } of this.samples.get(`${name}_bucket`) ?? []) {
      if (!fits(labels)) continue;
      const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
      counts.set(bound, (counts.get(bound) ?? 0) + value);
    }
    return [...counts].sort(([a], [b]) => a - b);
  }
}

/** What happened from one reading to the next. */
export class Between {
  constructor(before, after) {
    this.before = before;
    this.after = after;
    this.seconds = (after.atMs - before.atMs) / 1000;
  }

  /** How much a counter grew per second. */
  rate(name, fits) {
    const now = this.after.total(name, fits);
    const then = this.before.total(name, fits);
    return (now >= then ? now - then : now) / this.seconds;
  }

  /** The values below which the given shares of the new observations lie; nulls when there were none. */
  quantiles(name, shares, fits) {
    const then = new Map(this.before.buckets(name, fits));
    const now = this.after.buckets(name, fits);
    const restarted = now.some(([bound, count]) => count < (then.get(bound) ?? 0));
    const grown = now.map(([bound, count]) => [bound, restarted ? count : count - (then.get(bound) ?? 0)]);
    return shares.map((share) => quantile(grown, share));
  }
}

function quantile(buckets, share) {
  const total = buckets.at(-1)?.[1] ?? 0;
  if (total === 0) return null;
  const wanted = share * total;
  let [lower, counted] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= wanted && count > counted) {
      return bound === Infinity ? lower : lower + ((bound - lower) * (wanted - counted)) / (count - counted);
    }
    [lower, counted] = [bound, count];
  }
  return lower;
}

function labelsOf(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(LABEL))
    labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
  return labels;
}
