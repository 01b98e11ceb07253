/**
 * Building the page from nodes.
 *
 * There is one way to make an element, `h`, and strings always become text nodes: what agents write can never turn into
 * markup. Styles are set through the CSSOM, which the content security policy allows where style attributes are not.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Properties: `class`, `dataset` and `style` (objects; custom properties too), `on…` functions, anything
 * else as attribute; true sets it empty, and null, undefined or false leaves it out. Children: nodes, texts, lists,
 * null.
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) setProp(element, name, value);
  append(element, children);
  return element;
}

/** An element of an SVG drawing; attributes only. */
export function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

/** Puts other children into an element, in place of those it had. */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/**
 * Makes the children of `parent` those of `items`, in order, reusing the nodes that are there: `keyOf(item)` names a
 * node for life, `create(item)` makes it, `update(node, item)` is called for nodes that stay. A node that stays in
 * place is never detached, so it keeps its focus, its selection and its scroll position.
 */
export function reconcile(parent, items, keyOf, create, update) {
  const known = parent.keyedNodes ?? new Map();
  const next = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const old = known.get(key);
    if (old !== undefined) update?.(old, item);
    next.set(key, old ?? create(item));
  }
  for (const [key, node] of known) if (!next.has(key)) node.remove();
  let place = parent.firstChild;
  for (const node of next.values()) {
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  parent.keyedNodes = next;
}

const HIDDEN_MS = 200;

/**
 * Calls a function once, in the next frame, however often it was asked for; a hidden page has no frames, so a timer
 * helps out.
 */
export function oncePerFrame(run) {
  let frame = null;
  let timer = null;
  const go = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    frame = null;
    run();
  };
  return () => {
    if (frame !== null) return;
    frame = requestAnimationFrame(go);
    timer = setTimeout(go, HIDDEN_MS);
  };
}

function setProp(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "class") element.className = value;
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "style") for (const [key, set] of Object.entries(value)) element.style.setProperty(key, set);
  else if (name.startsWith("on")) element.addEventListener(name.slice(2).toLowerCase(), value);
  else if (name === "value") element.value = value;
  else element.setAttribute(name, value === true ? "" : String(value));
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child);
  }
}
