/**
 * A small world for the page's model of a topic: a log, a hub that answers reads at its own pace, and a feed that delivers at
 * its own pace. Everything that can overtake something else does, in an order that a seed decides.
 *
 * Run inside the page with a seed, the answer is a list of problems. In worlds with an even seed messages move between
 * topics as well. With `broken`, the last edit of a message on the page is never delivered.
 */
async ([seed, broken]) => {
  const { TopicModel } = await import("/ui/assets/js/topic/model.js");
  const HERE = "topic_here";
  const ELSEWHERE = "topic_elsewhere";
  const PAGE = 20;
  const STEPS = 500;

  let state = seed * 2654435761 + 1;
  const random = () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
  const pick = (list) => list[Math.floor(random() * list.length)];

  const truth = new Map();
  const log = [];
  let delivered = 0;
  const requests = [];
  const answers = [];

  const ids = (topic) => [...truth.values()].filter((message) => message.topic_id === topic).map((message) => message.id);
  const append = (name, data) => log.push({ event_id: log.length + 1, ts: `t${log.length}`, name, data, entity: { type: "message" } });
  const idOf = (number) => `msg_${String(number).padStart(6, "0")}`;

  function create() {
    const message = {
      id: idOf(truth.size),
      topic_id: random() < 0.85 ? HERE : ELSEWHERE,
      content_raw: `text ${truth.size}`,
      version: 1,
      edited_at: null,
      deleted_at: null,
    };
    truth.set(message.id, message);
    append("message.created", { message: { ...message } });
  }

  function change(message, changes, name, data) {
    Object.assign(message, changes, { version: message.version + 1 });
    append(name, { message_id: message.id, version: message.version, ...data });
  }

  function edit(message) {
    const content = `edited at ${log.length}`;
    change(message, { content_raw: content, edited_at: "now" }, "message.edited", { new_content: content });
  }

  function mutate() {
    const message = pick([...truth.values()]);
    const kind = random() * (seed % 2 === 0 ? 1 : 0.85);
    if (kind < 0.55) create();
    else if (kind < 0.75) {
      if (message.deleted_at === null) edit(message);
    } else if (kind < 0.85) {
      if (message.deleted_at === null) change(message, { content_raw: "[deleted]", deleted_at: "now" }, "message.deleted", { deleted_by: "ada" });
    } else {
      const [from, to] = [message.topic_id, message.topic_id === HERE ? ELSEWHERE : HERE];
      change(message, { topic_id: to }, "message.moved_topic", { old_topic_id: from, new_topic_id: to });
    }
  }

  /** What the hub reads at this moment. */
  function read(path, query) {
    if (path !== "/api/v1/messages") return { message: { ...truth.get(path.split("/").at(-1)) } };
    let found = ids(query.topic_id);
    if (query.before_id) found = found.filter((id) => id < query.before_id);
    if (query.after_id) found = found.filter((id) => id > query.after_id);
    const fromStart = query.after_id !== undefined || query.order === "oldest";
    const page = fromStart ? found.slice(0, PAGE) : found.slice(-PAGE);
    return { messages: page.map((id) => ({ ...truth.get(id) })).reverse(), has_more: found.length > page.length };
  }

  const api = { get: (path, query) => new Promise((resolve) => requests.push({ path, query, resolve })) };
  const model = new TopicModel(api, HERE);
  model.readerAt = () => model.messages[Math.floor(model.messages.length / 2)]?.id ?? null;

  async function serve() {
    if (requests.length === 0) return;
    const { path, query, resolve } = requests.splice(Math.floor(random() * requests.length), 1)[0];
    answers.push({ resolve, answer: read(path, query) });
  }

  async function answer() {
    if (answers.length === 0) return;
    const { resolve, answer } = answers.splice(Math.floor(random() * answers.length), 1)[0];
    resolve(answer);
    await new Promise((done) => setTimeout(done, 0));
  }

  function deliver() {
    if (delivered === log.length) return;
    delivered += 1;
    model.apply(log[delivered - 1]);
  }

  function act() {
    const everyone = ids(HERE);
    const kind = random();
    model.following = random() < 0.5;
    if (kind < 0.35) void model.loadOlder();
    else if (kind < 0.7) void model.loadNewer();
    else if (kind < 0.8) void model.openNewest();
    else if (kind < 0.88) void model.openOldest();
    else if (everyone.length > 0) void model.openAround(pick(everyone));
  }

  for (let number = 0; number < 120; number += 1) create();
  delivered = log.length;
  void model.openNewest();
  for (let step = 0; step < STEPS; step += 1) await pick([mutate, mutate, deliver, deliver, serve, answer, act])();
  // The end: everything arrives, and what the model asks for meanwhile is answered.
  for (let round = 0; round < 60; round += 1) {
    while (delivered < log.length) deliver();
    while (requests.length + answers.length > 0) {
      await serve();
      await answer();
    }
    await new Promise((done) => setTimeout(done, 5));
  }
  if (broken) edit(truth.get(model.messages.find((message) => message.deleted_at === null).id));

  const all = ids(HERE);
  const shown = model.messages;
  const problems = [];
  const start = all.indexOf(shown[0]?.id);
  const expected = shown.length === 0 ? [] : all.slice(start, start + shown.length);
  if (JSON.stringify(shown.map(({ id }) => id)) !== JSON.stringify(expected)) problems.push("the messages are not a stretch of the topic");
  for (const message of shown) {
    const { version, content_raw: content } = truth.get(message.id);
    if (message.version !== version || message.content_raw !== content) problems.push(`${message.id} is not as it is`);
  }
  if (shown.length === 0 && all.length > 0) problems.push("nothing is shown");
  if (!model.hasOlder && start > 0) problems.push("older messages are denied");
  if (!model.hasNewer && start + shown.length < all.length) problems.push("newer messages are denied");
  if (model.isLoading("all") || model.isLoading("older") || model.isLoading("newer")) problems.push("it is loading for ever");
  model.close();
  return problems;
}
