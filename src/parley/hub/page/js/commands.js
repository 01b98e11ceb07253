/**
 * What can be done by name: the list behind the command palette and the keyboard shortcuts.
 *
 * A command is `{id, title, keys?, run, when?}`. `keys` is written as on the keyboard (`j`, `Shift+E`, `Mod+K`, `g t`
 * for one after the other); `when()` says whether it makes sense now. The newest command with an id wins, so a view may
 * take over a general one while it is mounted.
 */

export class Commands {
  #commands = [];

  /** Adds a command; the answer removes it. */
  add(command) {
    this.#commands.push(command);
    return () => {
      this.#commands = this.#commands.filter((other) => other !== command);
    };
  }

  /** Those that make sense now, one per id, in the order in which they were added. */
  all() {
    const found = new Map();
    for (const command of this.#commands) if (command.when?.() ?? true) found.set(command.id, command);
    return [...found.values()];
  }

  run(id) {
    return this.all()
      .find((command) => command.id === id)
      ?.run();
  }
}
