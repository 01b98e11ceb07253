/**
 * What this browser remembers: the theme for all workspaces, everything else per database.
 *
 * Values are JSON in localStorage. Where storage is off or full, values live as long as the page does. Another window's
 * changes are reported, so that a topic read in one window is read in all.
 */

import { Emitter } from "./emitter.js";

const GLOBAL = "parley:";

export class Prefs {
  #prefix;
  #memory = new Map();
  #changes = new Emitter();

  /** `scope` is the database's id; without one the values are those of all workspaces. */
  constructor(scope = "") {
    this.#prefix = scope === "" ? GLOBAL : `${GLOBAL}${scope}:`;
    window.addEventListener("storage", (event) => {
      if (event.key?.startsWith(this.#prefix)) this.#changes.emit(event.key.slice(this.#prefix.length));
    });
  }

  get(name, fallback = null) {
    if (this.#memory.has(name)) return this.#memory.get(name);
    try {
      const text = localStorage.getItem(this.#prefix + name);
      return text === null ? fallback : JSON.parse(text);
    } catch {
      return fallback;
    }
  }

  set(name, value) {
    this.#write(name, value);
    this.#changes.emit(name);
  }

  remove(name) {
    this.#memory.delete(name);
    try {
      localStorage.removeItem(this.#prefix + name);
    } catch {
      // Without storage there is nothing to remove.
    }
    this.#changes.emit(name);
  }

  /** The names that begin like this. */
  names(beginning) {
    const found = new Set([...this.#memory.keys()].filter((name) => name.startsWith(beginning)));
    try {
      for (let index = 0; index < localStorage.length; index += 1) {
        const key = localStorage.key(index);
        if (key.startsWith(this.#prefix + beginning)) found.add(key.slice(this.#prefix.length));
      }
    } catch {
      // Without storage, memory has them all.
    }
    return [...found];
  }

  /** Told the name of each value that changed, here or in another window. */
  onChange(listener) {
    return this.#changes.on(listener);
  }

  #write(name, value) {
    try {
      localStorage.setItem(this.#prefix + name, JSON.stringify(value));
      this.#memory.delete(name);
    } catch {
      this.#memory.set(name, value);
    }
  }
}
