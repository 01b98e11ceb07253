/** Copying to the clipboard, with a sign of it on the element that was pressed and a word for screen readers. */

const SHOWN_MS = 1600;
let region = null;

/** Copies a text; `element` carries `data-copied` for a moment (`yes`, or `no` where the browser refused). */
export async function copyText(text, element) {
  let copied = "yes";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copied = "no";
  }
  element.dataset.copied = copied;
  say(copied === "yes" ? "Copied" : "The browser did not allow copying");
  setTimeout(() => delete element.dataset.copied, SHOWN_MS);
}

function say(text) {
  if (region === null) {
    region = document.createElement("div");
    region.className = "visually-hidden";
    region.setAttribute("role", "status");
    document.body.append(region);
  }
  region.textContent = "";
  region.textContent = text;
}
