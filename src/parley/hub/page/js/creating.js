/** Making channels and topics, and giving a topic another title. */

import { keyPerRequest } from "./api.js";

const CHANNEL_NAME_CHARS_MAX = 100;
const DESCRIPTION_CHARS_MAX = 2000;
const TITLE_CHARS_MAX = 200;

export async function createChannel(app) {
  const keyOf = keyPerRequest();
  const channel = await app.dialog.ask({
    title: "New channel",
    action: "Create channel",
    fields: [
      { name: "name", label: "Name", maxLength: CHANNEL_NAME_CHARS_MAX, required: true },
      {
        name: "description",
        label: "Description",
        maxLength: DESCRIPTION_CHARS_MAX,
        multiline: true,
        hint: "What belongs here. Optional.",
      },
    ],
    save: async ({ name, description }) => {
      const body = { name, description: description || null };
      return (await app.api.post("/api/v1/channels", body, { key: keyOf(body) })).channel;
    },
  });
  if (channel === undefined) return;
  app.store.keepChannel(channel);
  app.router.go(`/c/${channel.id}`);
}

export async function createTopic(app, channel) {
  const keyOf = keyPerRequest();
  const topic = await app.dialog.ask({
    title: `New topic in ${channel.name}`,
    action: "Create topic",
    fields: [{ name: "title", label: "Title", maxLength: TITLE_CHARS_MAX, required: true }],
    save: async ({ title }) => {
      const body = { channel_id: channel.id, title };
      return (await app.api.post("/api/v1/topics", body, { key: keyOf(body) })).topic;
    },
  });
  if (topic === undefined) return;
  app.store.keepTopic(topic);
  app.router.go(`/t/${topic.id}`);
}

export async function renameTopic(app, topic) {
  const keyOf = keyPerRequest();
  const renamed = await app.dialog.ask({
    title: "Rename topic",
    action: "Rename",
    fields: [{ name: "title", label: "Title", value: topic.title, maxLength: TITLE_CHARS_MAX, required: true }],
    save: async ({ title }) =>
      (await app.api.patch(`/api/v1/topics/${topic.id}`, { title }, { key: keyOf({ title }) })).topic,
  });
  if (renamed !== undefined) app.store.keepTopic(renamed);
}
