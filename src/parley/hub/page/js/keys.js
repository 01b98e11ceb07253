/**
 * The keyboard: runs the command whose keys were pressed, and shows the list of them.
 *
 * Keys are written as on the keyboard: `j`, `?`, `Shift+E`, `Delete`, `Mod+K` (Command on a Mac, Control elsewhere),
 * and `g t` for one after the other; several in a list are alternatives. Nothing fires while a person types in a field,
 * except combinations with Mod, nor while a dialog or a menu has the floor, nor with other modifiers than those named.
 */

import { h } from "./dom.js";

const SEQUENCE_MS = 1200;
const IS_MAC = /Mac|iPhone|iPad/.test(navigator.platform);
const MOD = IS_MAC ? "⌘" : "Ctrl";
const FIELDS = "input:not([type=checkbox], [type=radio], [type=button]), textarea, select, [contenteditable]";
const BUSY = "[role=menu], [role=listbox]";
// What may be held down; a held Delete must not run through the messages.
const HELD = new Set(["j", "k"]);

/** Listens until the answer is called. */
export function install(app) {
  const sequence = new Sequence();
  const onKey = (event) => {
    if (event.defaultPrevented || event.isComposing || (event.repeat && !HELD.has(event.key))) return;
    const pressed = chordOf(event);
    if (pressed === null || isTaken(event, pressed)) return;
    const found = sequence.next(pressed, app.commands.all());
    if (found === null) return;
    event.preventDefault();
    found.run?.();
  };
  const remove = app.commands.add({
    id: "keys.show",
    title: "Show keyboard shortcuts",
    keys: "?",
    run: () => showKeys(app),
  });
  document.addEventListener("keydown", onKey);
  return () => {
    document.removeEventListener("keydown", onKey);
    remove();
  };
}

/** The alternatives of a command's keys, each a list of chords. */
export function sequencesOf(command) {
  return [command.keys ?? []].flat().map((keys) => keys.split(" "));
}

/** The keys of a sequence as nodes for people. */
export function keysNodes(sequence) {
  const nodes = sequence.map((chord) => {
    const parts = chord === "+" ? ["+"] : chord.split("+");
    return parts.map((part) => h("kbd", { class: "kbd" }, part === "Mod" ? MOD : part));
  });
  return h(
    "span",
    { class: "keys" },
    nodes.flatMap((node, index) => (index === 0 ? node : [" then ", node])),
  );
}

/** Remembers what was pressed, for commands of several keys. */
class Sequence {
  #pressed = [];
  #timer = null;

  /** The command that is complete now, an empty one while more keys are expected, or null. */
  next(chord, commands) {
    const tried = [...this.#pressed, chord];
    const found = lookUp(tried, commands) ?? (tried.length > 1 ? lookUp([chord], commands) : null);
    clearTimeout(this.#timer);
    this.#pressed = found?.waits ?? [];
    if (this.#pressed.length > 0) this.#timer = setTimeout(() => (this.#pressed = []), SEQUENCE_MS);
    return found;
  }
}

function lookUp(pressed, commands) {
  let begun = null;
  // The newest first: a view's own keys go before the general ones.
  for (const command of commands.toReversed()) {
    for (const sequence of sequencesOf(command)) {
      if (!pressed.every((chord, index) => chord === sequence[index])) continue;
      if (sequence.length === pressed.length) return command;
      begun = { waits: pressed };
    }
  }
  return begun;
}

function chordOf(event) {
  const { key } = event;
  if (["Shift", "Control", "Alt", "Meta", "Dead", "Unidentified", "Process"].includes(key)) return null;
  const mod = IS_MAC ? event.metaKey : event.ctrlKey;
  const other = IS_MAC ? event.ctrlKey : event.metaKey;
  // AltGr types characters on many keyboards; it counts as such, not as Control with Alt.
  if (other || (event.altKey && !event.getModifierState("AltGraph"))) return null;
  const isLetter = /^\p{L}$/u.test(key);
  const name = isLetter && (event.shiftKey || mod) ? key.toUpperCase() : key;
  const parts = [];
  if (mod && !event.getModifierState("AltGraph")) parts.push("Mod");
  if (event.shiftKey && (isLetter || key.length > 1)) parts.push("Shift");
  return [...parts, name].join("+");
}

function isTaken(event, pressed) {
  const target = event.target instanceof Element ? event.target : document.body;
  if (document.querySelector("dialog[open]") || target.closest(BUSY)) return true;
  return target.closest(FIELDS) !== null && !pressed.startsWith("Mod+");
}

function showKeys(app) {
  const rows = app.commands
    .all()
    .filter((command) => sequencesOf(command).length > 0)
    .map((command) => {
      const ways = sequencesOf(command).flatMap((sequence, index) => [index > 0 ? " or " : null, keysNodes(sequence)]);
      return h("div", { class: "keys-row" }, h("dt", null, command.title), h("dd", null, ways));
    });
  app.dialog.open({ title: "Keyboard shortcuts", body: h("dl", { class: "keys-list" }, rows), wide: true });
}
