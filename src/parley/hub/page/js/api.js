/**
 * Calls to the hub's HTTP API.
 *
 * The session cookie goes along by itself. Every refusal becomes an `ApiError`; one without an answer has status 0 and
 * the code CONNECTION_FAILED. Reads that the hub turned away for the moment (429, 503) are repeated after the time it
 * asks for; writes are repeated by whoever holds their idempotency key.
 */

import { hintFor } from "./errors.js";

const READ_TRIES = 4;
const WAIT_SECONDS_MAX = 5;

class ApiError extends Error {
  constructor(status, code, message, { details = {}, retryAfterSeconds = null } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.details = details;
    this.retryAfterSeconds = retryAfterSeconds;
    this.hint = hintFor(code);
  }

  /** Whether nothing was done and the same request may succeed later. */
  get transient() {
    return this.status === 0 || this.status === 429 || (this.status === 503 && this.code !== "DATABASE_CORRUPT");
  }
}

export class Api {
  /** `onUnauthorized` is told when the hub no longer knows our session. */
  constructor({ onUnauthorized = () => {} } = {}) {
    this.onUnauthorized = onUnauthorized;
  }

  /** Reads; a list in the query is given once per value. With `tries: 1` a hub that is busy is not asked again. */
  async get(path, query, { signal, tries = READ_TRIES } = {}) {
    for (let tried = 1; ; tried += 1) {
      try {
        return await this.#send("GET", path + queryText(query), undefined, { signal });
      } catch (error) {
        if (tried >= tries || error.status === 0 || !error.transient) throw error;
        await sleep(Math.min(error.retryAfterSeconds ?? tried, WAIT_SECONDS_MAX) * 1000);
      }
    }
  }

  /** Reads what is not JSON. */
  text(path, { signal } = {}) {
    return this.#send("GET", path, undefined, { signal, read: (response) => response.text() });
  }

  post(path, body, { key, signal } = {}) {
    return this.#send("POST", path, body, { key, signal });
  }

  patch(path, body, { key, signal } = {}) {
    return this.#send("PATCH", path, body, { key, signal });
  }

  async #send(method, path, body, { key, signal, read = readJson }) {
    const headers = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (key !== undefined) headers["Idempotency-Key"] = key;
    const request = { method, headers, signal, credentials: "same-origin", cache: "no-store" };
    if (body !== undefined) request.body = JSON.stringify(body);
    let response, answer;
    try {
      response = await fetch(path, request);
      answer = await (response.ok ? read : readJson)(response);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "CONNECTION_FAILED", "The hub did not answer");
    }
    if (response.ok) return answer;
    const retryAfter = Number(response.headers.get("Retry-After") ?? NaN);
    const refusal = new ApiError(
      response.status,
      answer?.code ?? "UNKNOWN",
      answer?.error ?? `HTTP ${response.status}`,
      {
        details: answer?.details ?? {},
        retryAfterSeconds: Number.isFinite(retryAfter) ? retryAfter : null,
      },
    );
    if (response.status === 401) this.onUnauthorized(refusal);
    throw refusal;
  }
}

/** A key that makes a write happen once however often it is sent. */
export function newKey() {
  return `page-${crypto.randomUUID()}`;
}

/** Keys for a dialog whose save may be pressed again: the same request has the same key, another one has another. */
export function keyPerRequest() {
  const keys = new Map();
  return (body) => {
    const text = JSON.stringify(body);
    if (!keys.has(text)) keys.set(text, newKey());
    return keys.get(text);
  };
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function queryText(query) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of [value].flat()) search.append(name, one);
  }
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}

async function readJson(response) {
  const text = await response.text();
  if (text === "") return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
