/**
 * Which events are shown: by name, channel, topic, entity and words of the payload.
 *
 * The hub filters by channel and topic; the rest is compared here. All of it stands in the address.
 */

import { h } from "../dom.js";
import { createPlaceFilter, labelled } from "../place_filter.js";

const GROUPS = [
  ["Messages", ["message.created", "message.edited", "message.deleted", "message.moved_topic", "message.enriched"]],
  ["Topics", ["topic.created", "topic.renamed", "topic.attachment_added"]],
  ["Channels", ["channel.created"]],
  ["System", ["plugin.failed", "schema.migrated", "workspace.adopted", "workspace.archived"]],
];

/** The parameters of the address, complete. */
export function readParams(params) {
  return {
    name: (params.name ?? "").split(",").filter(Boolean),
    channel: params.channel ?? "",
    topic: params.topic ?? "",
    entity: params.entity ?? "",
    text: params.text ?? "",
  };
}

/** The parameters as an address has them. */
export function writeParams({ name, ...rest }) {
  return { name: name.join(","), ...rest };
}

/** The filter that an `EventWindow` works with; `narrow` says that much of what the hub gives will not pass. */
export function filterOf({ name, channel, topic, entity, text }) {
  const names = new Set(name);
  const wanted = text.trim().toLowerCase();
  const id = entity.trim();
  return {
    query: topic === "" ? { channel_id: channel } : { topic_id: topic },
    byPlace: channel !== "" || topic !== "",
    narrow: names.size > 0 || wanted !== "" || id !== "",
    passes: (event) =>
      (names.size === 0 || names.has(event.name)) &&
      (topic === "" ? channel === "" || event.scope.channel_id === channel : isOf(event, topic)) &&
      (id === "" || mentions(event, id)) &&
      (wanted === "" || JSON.stringify(event.data).toLowerCase().includes(wanted)),
  };
}

function isOf({ scope }, topic) {
  return scope.topic_id === topic || scope.topic_id2 === topic;
}

function mentions({ entity, scope }, id) {
  return [entity.id, scope.channel_id, scope.topic_id, scope.topic_id2].includes(id);
}

/** The form. `onChange(changes, {typing})` is called with what the person changed. */
export function createEventFilters(app, onChange) {
  const boxes = new Map();
  const toggle = () => onChange({ name: [...boxes].filter(([, box]) => box.checked).map(([name]) => name) });
  const group = ([title, names]) =>
    h(
      "fieldset",
      { class: "event-names" },
      h("legend", null, title),
      names.map((name) => nameBox(title, name, boxes, toggle)),
    );
  const place = createPlaceFilter(app, onChange);
  const entity = typed("msg_…, topic_…", (value) => onChange({ entity: value }, { typing: true }));
  const text = typed("any text", (value) => onChange({ text: value }, { typing: true }));
  const clear = h(
    "button",
    {
      type: "button",
      class: "button button-quiet",
      onClick: () => onChange({ name: [], channel: "", topic: "", entity: "", text: "" }),
    },
    "Clear",
  );
  const element = h(
    "form",
    { class: "event-filters", "aria-label": "Filters", onSubmit: (event) => event.preventDefault() },
    h("div", { class: "event-name-groups" }, GROUPS.map(group)),
    h("div", { class: "filters" }, place.nodes, labelled("Id", entity), labelled("Payload holds", text), clear),
  );
  return {
    element,
    show(params) {
      for (const [name, box] of boxes) box.checked = params.name.includes(name);
      place.show(params);
      if (document.activeElement !== entity) entity.value = params.entity;
      if (document.activeElement !== text) text.value = params.text;
      clear.hidden = !(params.name.length || params.channel || params.topic || params.entity || params.text);
    },
  };
}

function nameBox(group, name, boxes, onChange) {
  const box = h("input", { type: "checkbox", name, "aria-label": name, onChange });
  boxes.set(name, box);
  const shown = group === "System" ? name : name.split(".")[1];
  return h("label", { class: "event-name-box" }, box, h("span", null, shown.replaceAll(/[._]/g, " ")));
}

function typed(placeholder, onInput) {
  const control = h("input", { class: "input", placeholder, autocomplete: "off", spellcheck: "false" });
  control.addEventListener("input", () => onInput(control.value));
  return control;
}
