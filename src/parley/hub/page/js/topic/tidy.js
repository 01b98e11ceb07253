/** A text without blank lines around it. The first line keeps its indentation, which may mean code. */
export function tidy(text) {
  return text.replace(/^(?:[^\S\n]*\n)+/, "").trimEnd();
}
