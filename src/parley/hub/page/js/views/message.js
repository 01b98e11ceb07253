/** A message by its id alone, as plugins and people name it: leads on to the topic that it is in now. */

import { h, replace } from "../dom.js";
import { errorNotice } from "../errors.js";

export function mount(root, app, { message_id: id }) {
  const asking = new AbortController();
  const page = h("div", { class: "page", "aria-busy": "true" });
  root.append(page);
  app.api.get(`/api/v1/messages/${encodeURIComponent(id)}`, null, { signal: asking.signal }).then(
    ({ message }) => app.router.go(`/t/${message.topic_id}/m/${message.id}`, { replace: true }),
    (error) => error.name !== "AbortError" && replace(page, errorNotice(error)),
  );
  return {
    unmount() {
      asking.abort();
      page.remove();
    },
  };
}
