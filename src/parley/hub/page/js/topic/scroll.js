/**
 * Keeps what the reader looks at where it is, whatever is put in, taken out or grows around it.
 *
 * At the end the reader follows: new messages push the old ones up. Anywhere else the first message in view is the
 * anchor: after any change it is put back to the height it had. Sizes also change on their own (a window is resized, a
 * link is drawn), so the anchor is held after every change of size, too.
 */

const NEAR_END_PX = 60;

export class ScrollKeeper {
  #scroller;
  #content;
  #anchor = null;
  #observer;

  /** `content` holds the articles in order; `below` stands under them and may grow, too. */
  constructor(scroller, content, below) {
    this.#scroller = scroller;
    this.#content = content;
    this.following = true;
    this.#observer = new ResizeObserver(() => this.hold());
    this.#observer.observe(content);
    this.#observer.observe(below);
    this.#observer.observe(scroller);
  }

  close() {
    this.#observer.disconnect();
  }

  get isNearEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  get pxAbove() {
    return this.#scroller.scrollTop;
  }

  get pxBelow() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  get viewHeight() {
    return this.#scroller.clientHeight;
  }

  /** The article at the top of the view, or null. */
  get anchorNode() {
    return this.#anchor?.nodes.find((node) => node.isConnected) ?? null;
  }

  /**
   * The reader moved: remembers where to. `canFollow` is false while the end of the list is not the end of the topic.
   */
  moved(canFollow) {
    this.following = canFollow && this.isNearEnd;
    this.#remember();
  }

  /** Puts the view back to where it was. */
  hold() {
    if (this.following) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    else {
      const index = this.#anchor?.nodes.findIndex((node) => node.isConnected) ?? -1;
      if (index === -1) return;
      const moved = this.#topOf(this.#anchor.nodes[index]) - this.#anchor.tops[index];
      if (moved !== 0) this.#scroller.scrollTop += moved;
    }
    this.#remember();
  }

  toEnd() {
    this.following = true;
    this.hold();
  }

  toStart() {
    this.following = false;
    this.#scroller.scrollTop = 0;
    this.#remember();
  }

  /** Brings an article into the upper part of the view. */
  toNode(node) {
    this.following = false;
    this.#scroller.scrollTop += this.#topOf(node) - this.#scroller.clientHeight * 0.25;
    this.#remember();
  }

  isAboveView(node) {
    return this.#topOf(node) < 0;
  }

  /** The articles in view, first to last: should the first be taken out, the next one takes its place as anchor. */
  #remember() {
    const articles = this.#content.querySelectorAll(":scope > article");
    let low = 0;
    let high = articles.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#topOf(articles[middle]) + articles[middle].offsetHeight <= 0) low = middle + 1;
      else high = middle;
    }
    const nodes = [];
    for (let at = low; at < articles.length && this.#topOf(articles[at]) < this.#scroller.clientHeight; at += 1)
      nodes.push(articles[at]);
    this.#anchor = { nodes, tops: nodes.map((node) => this.#topOf(node)) };
  }

  #topOf(node) {
    return node.getBoundingClientRect().top - this.#scroller.getBoundingClientRect().top;
  }
}
