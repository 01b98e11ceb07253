/** Times for people: in their own time zone and language, exact on demand, and relative ones that stay true. */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const REFRESH_MS = 20_000;

const UNKNOWN = "unknown time";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const narrow = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const medium = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const withYear = new Intl.DateTimeFormat(undefined, {
  weekday: "long",
  day: "numeric",
  month: "long",
  year: "numeric",
});
const withSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const shortWithYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

/** A time that cannot be read is named as such: it must not take a whole list of others with it. */
function format(style, time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? UNKNOWN : style.format(date);
}

/** 14:05 */
export function clockTime(text) {
  return format(clock, text);
}

/** 14:05:12 */
export function secondsTime(text) {
  return format(withSeconds, text);
}

/** 14:05 in every language, where there is no room for more. */
export function narrowTime(text) {
  return format(narrow, text);
}

/** Monday, 16 November 2026 at 14:05:12 */
export function exactTime(text) {
  return format(exact, text);
}

/** 16 Nov 2026, 14:05 */
export function mediumTime(text) {
  return format(medium, text);
}

/** The local day as a key: two times of the same day have the same one. */
export function dayKey(text) {
  const date = new Date(text);
  return `${date.getFullYear()}-${date.getMonth() + 1}-${date.getDate()}`;
}

/** Today, Yesterday, Monday, 9 November, or with the year if it is another one. */
export function dayName(text, now = Date.now()) {
  const date = new Date(text);
  if (dayKey(text) === dayKey(now)) return "Today";
  if (dayKey(text) === dayKey(now - DAY * 1000)) return "Yesterday";
  return format(date.getFullYear() === new Date(now).getFullYear() ? weekday : withYear, date);
}

/** now, 5m, 3h, 2d, 9 Nov: short enough for a sidebar. */
export function relativeTime(text, now = Date.now()) {
  const date = new Date(text);
  const seconds = (now - date.getTime()) / 1000;
  if (seconds < MINUTE) return "now";
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)}h`;
  if (seconds < 7 * DAY) return `${Math.floor(seconds / DAY)}d`;
  return format(date.getFullYear() === new Date(now).getFullYear() ? short : shortWithYear, date);
}

/** 45s left, 12m left, 1h 5m left: how long until then; "ended" when it is over. */
export function timeLeft(text, now = Date.now()) {
  const seconds = Math.ceil((new Date(text).getTime() - now) / 1000);
  if (Number.isNaN(seconds)) return UNKNOWN;
  if (seconds <= 0) return "ended";
  if (seconds < MINUTE) return `${seconds}s left`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)}m left`;
  return `${Math.floor(seconds / HOUR)}h ${Math.floor((seconds % HOUR) / MINUTE)}m left`;
}

/** Calls back every so often while the page is seen, for texts that age; the answer stops it. */
export function everyNowAndThen(run) {
  const timer = setInterval(() => document.visibilityState === "visible" && run(), REFRESH_MS);
  const onShow = () => document.visibilityState === "visible" && run();
  document.addEventListener("visibilitychange", onShow);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", onShow);
  };
}
