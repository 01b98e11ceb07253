/** Whether Enter sends: the person's choice, or, before they chose, yes where there is a real keyboard. */

const TOUCH = window.matchMedia("(pointer: coarse)");

export function enterSends(prefs) {
  return prefs.get("enter_sends", !TOUCH.matches);
}

/** Whether a key that was pressed means "send"; Ctrl or Command with Enter always does. */
export function isSendKey(event, prefs) {
  if (event.key !== "Enter" || event.isComposing) return false;
  return event.ctrlKey || event.metaKey || (enterSends(prefs) && !event.shiftKey);
}
