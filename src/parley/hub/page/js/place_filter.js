/** The two filters by place that search and events share: a channel, and a topic of it. */

import { h, replace } from "./dom.js";

let counter = 0;

/** A control with its name above it. */
export function labelled(name, control) {
  control.id = `filter-${(counter += 1)}`;
  return h("div", { class: "filter" }, h("label", { for: control.id }, name), control);
}

/** `onChange({channel, topic})` is called with the new choice; `show({channel, topic})` sets it and its lists. */
export function createPlaceFilter(app, onChange) {
  const channel = h("select", { class: "input", onChange: () => onChange({ channel: channel.value, topic: "" }) });
  const topic = h("select", {
    class: "input",
    onChange: () => onChange({ channel: channel.value, topic: topic.value }),
  });
  return {
    nodes: [labelled("Channel", channel), labelled("Topic", topic)],
    show(chosen) {
      setOptions(
        channel,
        "Any channel",
        app.store.channelList.map(({ id, name }) => [id, name]),
        chosen.channel,
      );
      setOptions(topic, "Any topic", topicOptions(app, chosen), chosen.topic);
      topic.disabled = chosen.channel === "" && chosen.topic === "";
      if (chosen.channel !== "" && !app.store.topicsLoaded(chosen.channel))
        app.store.loadTopics(chosen.channel).catch(() => {});
      if (chosen.topic !== "" && !app.store.topics.has(chosen.topic)) app.store.topic(chosen.topic).catch(() => {});
    },
  };
}

function topicOptions(app, { channel, topic }) {
  const listed = channel === "" ? [] : app.store.topicsOf(channel);
  if (topic !== "" && !listed.some(({ id }) => id === topic)) {
    listed.unshift({ id: topic, title: app.store.topics.get(topic)?.title ?? topic });
  }
  return listed.map(({ id, title }) => [id, title]);
}

/** Changes the list only if it differs: an open list must not be closed by an event. */
function setOptions(select, any, options, value) {
  const wanted = [["", any], ...options];
  const shown = [...select.options].map((option) => [option.value, option.text]);
  if (JSON.stringify(shown) !== JSON.stringify(wanted))
    replace(
      select,
      wanted.map(([id, name]) => h("option", { value: id }, name)),
    );
  select.value = value;
}
