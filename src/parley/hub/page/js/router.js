/**
 * Where the person is, as the address after the #.
 *
 * A route is a pattern such as `/t/:topic_id/m/:message_id`; parameters come from it and from the query. Links are
 * plain `<a href="#/...">`, so that the browser's own back, forward, middle click and copy work.
 */

import { Emitter } from "./emitter.js";

export class Router {
  #routes;
  #changes = new Emitter();

  /** `routes` is a list of `{pattern, ...}`; the first that matches wins. */
  constructor(routes) {
    this.#routes = routes.map((route) => ({ ...route, parts: route.pattern.split("/").slice(1) }));
    window.addEventListener("hashchange", () => this.#changes.emit());
  }

  /** `{route, params}` of the present address, or null if nothing matches. */
  get current() {
    const [path, query] = splitHash(location.hash);
    const parts = path.split("/").slice(1);
    for (const route of this.#routes) {
      const found = match(route.parts, parts);
      if (found !== null) return { route, params: { ...Object.fromEntries(new URLSearchParams(query)), ...found } };
    }
    return null;
  }

  /** The one-time code of a log-in link, or null. */
  get code() {
    return location.hash.startsWith("#code=") ? new URLSearchParams(location.hash.slice(1)).get("code") : null;
  }

  /** Goes to an address such as `/t/topic_1`; `replace` leaves no trace in the history. */
  go(path, { query, replace = false } = {}) {
    const target = hrefTo(path, query);
    if (target === (location.hash || "#/")) return this.#changes.emit();
    if (!replace) {
      location.hash = target;
      return;
    }
    history.replaceState(null, "", target);
    this.#changes.emit();
  }

  onChange(listener) {
    return this.#changes.on(listener);
  }
}

/** The href of a place in the page. */
function hrefTo(path, query) {
  const given = Object.entries(query ?? {}).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const text = new URLSearchParams(given).toString();
  return text === "" ? `#${path}` : `#${path}?${text}`;
}

export function topicHref(topicId, messageId) {
  const base = `/t/${encodeURIComponent(topicId)}`;
  return hrefTo(messageId === undefined ? base : `${base}/m/${encodeURIComponent(messageId)}`);
}

export function channelHref(channelId) {
  return hrefTo(`/c/${encodeURIComponent(channelId)}`);
}

function splitHash(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?", 2);
  return [path === "" ? "/" : path, query];
}

function match(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  const params = {};
  for (const [index, piece] of pattern.entries()) {
    if (piece.startsWith(":")) {
      if (parts[index] === "") return null;
      params[piece.slice(1)] = decode(parts[index]);
    } else if (piece !== parts[index]) return null;
  }
  return params;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
