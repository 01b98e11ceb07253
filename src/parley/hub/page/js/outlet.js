/**
 * Where views are shown, one at a time. A view that can `update` stays mounted while only its parameters change; all others
 * are mounted anew.
 */

import { errorNotice } from "./errors.js";
import { h, replace } from "./dom.js";

export class Outlet {
  #root;
  #app;
  #shown = null;
  #turn = 0;

  constructor(root, app) {
    this.#root = root;
    this.#app = app;
  }

  /** Shows the view of the present address. */
  async show() {
    const turn = (this.#turn += 1);
    const place = this.#app.router.current;
    if (place === null) return this.#app.router.go("/", { replace: true });
    // A view that was gone to takes the focus, so that keys work in it; the first one leaves it where the browser has it.
    this.#app.takesFocus = turn > 1;
    const { route, params } = place;
    if (this.#shown?.name === route.name && this.#shown.view.update !== undefined) return this.#shown.view.update(params);
    let module;
    try {
      module = await route.load();
    } catch {
      module = missing(route);
    }
    // A slower module of an earlier click must not replace the view of a later one.
    if (turn !== this.#turn) return;
    this.clear();
    this.#app.setTitle(route.title);
    if (this.#app.takesFocus) this.#root.focus({ preventScroll: true });
    this.#shown = { name: route.name, view: module.mount(this.#root, this.#app, params) };
  }

  clear() {
    this.#shown?.view.unmount();
    this.#shown = null;
    replace(this.#root);
  }
}

function missing(route) {
  const error = { message: `The view "${route.title}" could not be loaded`, hint: "Reload the page to try again." };
  return {
    mount(root) {
      replace(root, h("div", { class: "page" }, errorNotice(error)));
      return { unmount() {} };
    },
  };
}
