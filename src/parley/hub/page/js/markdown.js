/**
 * Messages as people read them: a safe subset of Markdown, with what plugins found in it as links and marks.
 *
 * `render` builds nodes and nothing else; there is no step at which text could become markup. Addresses become links
 * only if they are http or https, pictures become links, HTML stays text. The work is bounded by the length of the
 * text, and so is the depth of the tree.
 *
 * The parts: `blocks` finds paragraphs, lists and the like, `inline` the formatting inside them, `marks` where a
 * plugin's findings lie, `text` makes hidden characters visible. All of them speak in ranges of the source.
 */

import { copyText } from "./copy.js";
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { parseBlocks } from "./markdown/blocks.js";
import { parseInline } from "./markdown/inline.js";
import { Marks } from "./markdown/marks.js";
import { textNodes } from "./markdown/text.js";

const NESTING_MAX = 24;

/**
 * The nodes of a message's text.
 *
 * @param {string} text the message as it was written
 * @param {{enrichments?: object[], onMessageLink?: (id: string) => void}} options the findings with their spans in code
 *   points, and what follows a reference to another message (without it, the link's own address does)
 * @returns {DocumentFragment}
 */
export function render(text, { enrichments = [], onMessageLink = null } = {}) {
  const writer = new Writer(text, new Marks(text, enrichments), onMessageLink);
  const fragment = document.createDocumentFragment();
  fragment.append(...writer.blocks(parseBlocks(text)));
  return fragment;
}

class Writer {
  constructor(source, marks, onMessageLink) {
    this.source = source;
    this.marks = marks;
    this.onMessageLink = onMessageLink;
    this.drawn = new Set();
  }

  blocks(blocks) {
    return blocks.map((block) => this[block.type](block));
  }

  paragraph({ lines }) {
    return directed(h("p", { class: "md-text" }, this.inline(lines)));
  }

  heading({ level, lines }) {
    // Below the page's own headings, which end at the third level.
    const tag = `h${Math.min(level + 3, 6)}`;
    return directed(h(tag, { class: "md-text md-heading" }, this.inline(lines)));
  }

  rule() {
    return h("hr", { class: "md-rule" });
  }

  quote({ blocks }) {
    return h("blockquote", { class: "md-quote" }, this.blocks(blocks));
  }

  list({ ordered, start, items }) {
    const nodes = items.map((item) => this.item(item));
    return h(ordered ? "ol" : "ul", { class: "md-list", start: ordered && start !== 1 ? start : null }, nodes);
  }

  item({ done, blocks }) {
    const box =
      done === null ? null : h("span", { class: "md-task", role: "img", "aria-label": done ? "done" : "not done" });
    const node = h("li", { class: box && "md-task-item", dataset: box ? { done } : {} }, box, this.blocks(blocks));
    // The item's own text decides on which side its mark stands, and what has a direction does not count as its text.
    for (const child of node.children) if (child.tagName === "P") child.removeAttribute("dir");
    return directed(node);
  }

  table({ aligns, header, rows }) {
    const cells = (tag, row) =>
      row.map((cell, column) => {
        const props = { class: `md-text md-${aligns[column] ?? "start"}`, scope: tag === "th" ? "col" : null };
        return directed(h(tag, props, this.inline([cell])));
      });
    const table = h(
      "table",
      null,
      h("thead", null, h("tr", null, cells("th", header))),
      h(
        "tbody",
        null,
        rows.map((row) => h("tr", null, cells("td", row))),
      ),
    );
    return h("div", { class: "md-table", role: "group", "aria-label": "Table", tabindex: "0" }, table);
  }

  code({ language, lines }) {
    const code = h("code");
    for (const [index, { from, to }] of lines.entries()) {
      if (index > 0) code.append("\n");
      code.append(...this.leaf(from, to, false));
    }
    const plain = () => lines.map(({ from, to }) => this.source.slice(from, to)).join("\n");
    const copy = h("button", { type: "button", class: "md-copy", "aria-label": "Copy code" }, icon("copy"));
    copy.addEventListener("click", () => copyText(plain(), copy));
    const label = language === "" ? "Code" : `Code, ${language}`;
    return h(
      "figure",
      { class: "md-code" },
      h("figcaption", null, h("span", { class: "md-language" }, textNodes(language)), copy),
      h("pre", { tabindex: "0", role: "group", "aria-label": label }, directed(code)),
    );
  }

  /**
   * The formatted text of some lines. Tags beyond the greatest depth, and links inside links, leave only their text.
   */
  inline(lines) {
    const root = document.createDocumentFragment();
    const open = [{ node: root, link: null }];
    for (const token of parseInline(this.source, lines, this.marks.literals)) {
      const here = open.at(-1);
      const leaf = () => this.leaf(token.from, token.to, here.link !== null);
      if (token.type === "text") here.node.append(...leaf());
      else if (token.type === "code") here.node.append(h("code", { class: "md-span" }, leaf()));
      else if (token.type === "break") here.node.append(h("br"));
      else if (token.type === "open") open.push(this.opened(token, here, open.length));
      else this.closed(open);
    }
    return root;
  }

  opened(token, here, depth) {
    if (depth > NESTING_MAX || (token.tag === "link" && here.link)) return { ...here };
    const link = token.tag === "link";
    const node = link ? outside(token.href) : h(token.tag);
    here.node.append(node);
    return { node, link: link ? node : here.link };
  }

  closed(open) {
    const { node, link } = open.pop();
    if (link === node && node.childNodes.length < 2 && node.textContent.trim() === "") node.append(node.href);
  }

  /** The text of a range, its findings around it. */
  leaf(from, to, inLink) {
    return this.marks.parts(from, to).flatMap((part) => {
      let nodes = textNodes(this.source.slice(part.from, part.to));
      if (part.reference) nodes = [this.reference(part.reference, nodes, inLink)];
      if (part.notes.length > 0) nodes = [h("mark", { class: "md-note", title: part.notes.join("\n") }, nodes)];
      return nodes;
    });
  }

  reference(span, nodes, inLink) {
    const { reference } = span;
    // A finding that formatting cuts in pieces is one stop for the keyboard, not several.
    const again = this.drawn.has(span);
    this.drawn.add(span);
    if (inLink) return h("span", { class: "md-ref", title: reference.place ?? reference.href ?? reference.id }, nodes);
    if (reference.type === "url") return outside(reference.href, nodes, again);
    if (reference.type === "message") return this.messageLink(reference.id, nodes, again);
    return placeButton(reference, nodes, again);
  }

  messageLink(id, nodes, again) {
    const link = h(
      "a",
      { class: "md-ref md-message", href: `#/m/${encodeURIComponent(id)}`, title: `Message ${id}` },
      nodes,
    );
    if (again) link.tabIndex = -1;
    link.addEventListener("click", (event) => {
      if (!this.onMessageLink || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      this.onMessageLink(id);
    });
    return link;
  }
}

/**
 * Lets an element's text choose its direction. Set last: a browser looks for it again after every child that is added.
 */
function directed(element) {
  element.dir = "auto";
  return element;
}

/** A link out of the page. Its title is the address as the browser will open it, whatever the text claims. */
function outside(href, nodes = [], again = false) {
  const props = { class: "md-link", href, title: href, target: "_blank", rel: "noopener noreferrer" };
  return h("a", { ...props, tabindex: again ? "-1" : null }, nodes);
}

/** A file or a place in code: pressing it copies where it is. A span, because a button cannot wrap over lines. */
function placeButton({ label, place }, nodes, again) {
  const title = `${label}: ${place} (press to copy)`;
  const node = h("span", { class: "md-ref md-place", role: "button", tabindex: again ? "-1" : "0", title }, nodes);
  node.addEventListener("click", () => copyText(place, node));
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    copyText(place, node);
  });
  return node;
}
