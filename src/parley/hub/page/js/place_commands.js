/** Commands about the place that is shown: searching it, and watching its events. */

const PATHS = { Search: "/search", Events: "/events" };

/** Adds them; the answer takes them off again. */
export function install(app) {
  const { commands, router } = app;
  /** What the filters of search and events are called, set to the present place. */
  const queries = {
    channel: async ({ channel_id: channel }) => ({ channel }),
    topic: async ({ topic_id: id }) => ({ channel: (await app.store.topic(id)).channel_id, topic: id }),
  };
  const stops = Object.entries(queries).flatMap(([place, queryOf]) =>
    Object.entries(PATHS).map(([view, path]) =>
      commands.add({
        id: `${place}${path}`,
        title: `${view} in this ${place}`,
        when: () => router.current?.route.name === place,
        run: async () => router.go(path, { query: await queryOf(router.current.params) }),
      }),
    ),
  );
  return () => stops.forEach((stop) => stop());
}
