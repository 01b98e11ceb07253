/** Numbers for people: short, with a unit, never with more digits than they are worth. */

const BYTES = ["B", "KB", "MB", "GB", "TB"];
const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });

export function count(value) {
  return whole.format(value);
}

/** 0.4, 12, 1,204: of things per second. */
export function rate(value) {
  return value < 10 ? value.toFixed(1) : whole.format(value);
}

export function bytes(value) {
  let [size, unit] = [value, 0];
  while (size >= 1000 && unit < BYTES.length - 1) [size, unit] = [size / 1000, unit + 1];
  return `${size < 10 && unit > 0 ? size.toFixed(1) : whole.format(size)} ${BYTES[unit]}`;
}

/** A time in seconds as milliseconds. */
export function milliseconds(value) {
  const ms = value * 1000;
  return `${ms < 10 ? ms.toFixed(1) : whole.format(ms)} ms`;
}

/** 12 s, 4 min, 3 h, 2 d. */
export function duration(seconds) {
  if (seconds < 90) return `${whole.format(seconds)} s`;
  if (seconds < 90 * 60) return `${whole.format(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${whole.format(seconds / 3600)} h`;
  return `${whole.format(seconds / 86400)} d`;
}
