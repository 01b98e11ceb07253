/** Listeners of one kind of happening. A listener that throws is reported and does not keep the others from hearing. */

export class Emitter {
  #listeners = new Set();

  /** Adds a listener; the answer removes it. */
  on(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  emit(...values) {
    for (const listener of [...this.#listeners]) {
      try {
        listener(...values);
      } catch (error) {
        reportError(error);
      }
    }
  }
}
