/**
 * The field and the filters of the search.
 *
 * Channel and topic are filtered by the hub, sender and days here. The form knows no results; it shows the parameters of the
 * address and says what the person changed.
 */

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";

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
  const channel = select("Channel", () => onChange({ channel: channel.control.value, topic: "" }));
  const topic = select("Topic", () => onChange({ topic: topic.control.value }));
  const senders = h("datalist", { id: "search-senders" });
  const sender = labelled("Sender", h("input", { class: "input", list: "search-senders", placeholder: "Anyone", autocomplete: "off" }));
  sender.control.addEventListener("input", () => onChange({ sender: sender.control.value.trim() }));
  const from = day("From", (value) => onChange({ from: value }));
  const to = day("To", (value) => onChange({ to: value }));
  const clear = h(
    "button",
    { type: "button", class: "button button-quiet", onClick: () => onChange({ channel: "", topic: "", sender: "", from: "", to: "" }) },
    "Clear filters",
  );
  const element = h(
    "form",
    { class: "search-form", role: "search", "aria-label": "Messages", onSubmit: (event) => event.preventDefault() },
    h("div", { class: "search-box" }, icon("search"), field),
    h("div", { class: "search-filters" }, channel.node, topic.node, sender.node, from.node, to.node, clear),
    senders,
  );

  return {
    element,
    field,
    /** Shows the parameters; a control in which the person types is left alone. */
    show(params) {
      setValue(field, params.q);
      setOptions(channel.control, "Any channel", app.store.channelList.map(({ id, name }) => [id, name]), params.channel);
      setOptions(topic.control, "Any topic", topicsFor(app, params), params.topic);
      topic.control.disabled = params.channel === "" && params.topic === "";
      setValue(sender.control, params.sender);
      setValue(from.control, params.from);
      setValue(to.control, params.to);
      clear.hidden = !(params.channel || params.topic || params.sender || params.from || params.to);
    },
    suggestSenders(names) {
      replace(senders, names.map((name) => h("option", { value: name })));
    },
  };
}

function topicsFor(app, { channel, topic }) {
  const listed = channel === "" ? [] : app.store.topicsOf(channel);
  const chosen = app.store.topics.get(topic);
  if (topic !== "" && !listed.some(({ id }) => id === topic)) listed.unshift({ id: topic, title: chosen?.title ?? topic });
  return listed.map(({ id, title }) => [id, title]);
}

function labelled(name, control) {
  return { control, node: h("label", { class: "search-filter" }, h("span", null, name), control) };
}

function select(name, onChange) {
  return labelled(name, h("select", { class: "input", onChange }));
}

function day(name, onChange) {
  const made = labelled(name, h("input", { class: "input", type: "date" }));
  made.control.addEventListener("change", () => onChange(made.control.value));
  return made;
}

function setValue(control, value) {
  if (document.activeElement !== control && control.value !== value) control.value = value;
}

function setOptions(control, any, options, value) {
  const wanted = [["", any], ...options];
  const shown = [...control.options].map((option) => [option.value, option.text]);
  if (JSON.stringify(shown) !== JSON.stringify(wanted)) replace(control, wanted.map(([id, name]) => h("option", { value: id }, name)));
  control.value = value;
}
