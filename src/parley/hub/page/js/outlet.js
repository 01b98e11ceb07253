/**
 * Where views are shown, one at a time. A view that can `update` stays mounted while only its parameters change; all
 * others are mounted anew.
 */

import { replace } from "./dom.js";

export class Outlet {
  #root;
  #app;
  #shown = null;

  constructor(root, app) {
    this.#root = root;
    this.#app = app;
  }

  /** Shows the view of the present address. */
  show() {
    const place = this.#app.router.current;
    if (place === null) return this.#app.router.go("/", { replace: true });
    const { route, params } = place;
    // A view that was gone to takes the focus, so that keys work in it; the first one leaves it where the browser has
    // it.
    this.#app.takesFocus = this.#shown !== null;
    if (this.#shown?.name === route.name && this.#shown.mounted.update !== undefined)
      return this.#shown.mounted.update(params);
    this.clear();
    this.#app.setTitle(route.title);
    if (this.#app.takesFocus) this.#root.focus({ preventScroll: true });
    this.#shown = { name: route.name, mounted: route.view.mount(this.#root, this.#app, params) };
  }

  clear() {
    this.#shown?.mounted.unmount();
    this.#shown = null;
    replace(this.#root);
  }
}
