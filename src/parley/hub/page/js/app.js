/**
 * The app of one session: its parts, wired together, and the frame around the views.
 *
 * Views get `app`: `{api, feed, store, board, unread, lastMessages, outbox, router, dialog, prefs, announce, commands,
 * setTitle}`. Keys and palette are installed over it: `install(app)`, which answers how to take them off again.
 */

import { Board } from "./work/board.js";
import { Commands } from "./commands.js";
import { Feed } from "./feed.js";
import { LastMessages } from "./last_messages.js";
import { Outbox } from "./outbox.js";
import { Outlet } from "./outlet.js";
import { Prefs } from "./prefs.js";
import { Store } from "./store.js";
import { Unread } from "./unread.js";
import * as dialog from "./dialog.js";
import * as hereCommands from "./place_commands.js";
import * as keys from "./keys.js";
import * as palette from "./palette.js";
import { mountShell } from "./shell.js";
import { registerCommands } from "./general_commands.js";

export async function startApp(root, { api, router, announce, session, onLoggedOut, onReset }) {
  const { replay_until: cursor, events } = await api.get("/api/v1/events", { tail: 1 });
  const prefs = new Prefs(session.db_id);
  const store = new Store(api, session);
  const feed = new Feed(api);
  const board = new Board(api, feed);
  const unread = new Unread({ api, prefs, store, now: events[0]?.ts ?? new Date().toISOString() });
  const outbox = new Outbox({ api, feed, prefs });
  const lastMessages = new LastMessages(api);
  const commands = new Commands();
  const app = { api, feed, store, board, unread, lastMessages, outbox, router, dialog, prefs, announce, commands };
  const shell = mountShell(root, app);
  const outlet = new Outlet(shell.main, app);
  app.setTitle = shell.setTitle;

  /** Loads the channels; what cannot be loaded now is when the connection is back. */
  const loadStore = () => store.loaded || store.load().catch(() => {});
  const stops = [
    feed.onEvent((event) => {
      store.apply(event);
      board.apply(event);
      unread.apply(event);
      lastMessages.apply(event);
    }),
    feed.onState((state) => {
      if (state === "logged-out") onLoggedOut();
      if (state === "live") loadStore();
    }),
    feed.onReset(onReset),
    router.onChange(() => router.code === null && outlet.show()),
    registerCommands(app),
    hereCommands.install(app),
    keys.install(app),
    palette.install(app),
  ];
  feed.start({ dbId: session.db_id, cursor });
  loadStore();
  outbox.resume();
  outlet.show();
  return {
    unmount() {
      feed.stop();
      outbox.stop();
      for (const stop of stops) stop();
      outlet.clear();
      shell.unmount();
    },
  };
}
