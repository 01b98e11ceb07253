/**
 * The field and the filters of the search.
 *
 * Channel and topic are filtered by the hub, sender and days here. The form knows no results; it shows the parameters
 * of the address and says what the person changed.
 */

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { createPlaceFilter, labelled } from "../place_filter.js";

/** `onChange(changes)` is called with the parameters that changed; those of the field as it is typed into. */
export function createFilters(app, onChange) {
  const field = h("input", {
    class: "input search-field",
    type: "search",
    name: "q",
    "aria-label": "Search messages",
    placeholder: "Search messages",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: "1000",
    onInput: () => onChange({ q: field.value }),
  });
  const place = createPlaceFilter(app, onChange);
  const senders = h("datalist", { id: "search-senders" });
  const sender = h("input", {
    class: "input",
    list: "search-senders",
    placeholder: "Anyone",
    autocomplete: "off",
    onInput: () => onChange({ sender: sender.value.trim() }),
  });
  const from = h("input", { class: "input", type: "date", onChange: () => onChange({ from: from.value }) });
  const to = h("input", { class: "input", type: "date", onChange: () => onChange({ to: to.value }) });
  const clear = h(
    "button",
    {
      type: "button",
      class: "button button-quiet",
      onClick: () => onChange({ channel: "", topic: "", sender: "", from: "", to: "" }),
    },
    "Clear filters",
  );
  const element = h(
    "form",
    { class: "search-form", role: "search", "aria-label": "Messages", onSubmit: (event) => event.preventDefault() },
    h("div", { class: "search-box" }, icon("search"), field),
    h(
      "div",
      { class: "filters" },
      place.nodes,
      labelled("Sender", sender),
      labelled("From", from),
      labelled("To", to),
      clear,
    ),
    senders,
  );

  return {
    element,
    field,
    /** Shows the parameters; a control in which the person types is left alone. */
    show(params) {
      setValue(field, params.q);
      place.show(params);
      setValue(sender, params.sender);
      setValue(from, params.from);
      setValue(to, params.to);
      clear.hidden = !(params.channel || params.topic || params.sender || params.from || params.to);
    },
    suggestSenders(names) {
      replace(
        senders,
        names.map((name) => h("option", { value: name })),
      );
    },
  };
}

function setValue(control, value) {
  if (document.activeElement !== control && control.value !== value) control.value = value;
}
