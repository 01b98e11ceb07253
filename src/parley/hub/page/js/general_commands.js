/** What can be done from everywhere. Views add their own while they are mounted. */

import { askName } from "./identity.js";
import { createChannel } from "./creating.js";
import { switchTheme } from "./theme_switch.js";

export function registerCommands(app) {
  const { commands, router } = app;
  const stops = [
    commands.add({ id: "go.home", title: "Go to home", keys: "g h", run: () => router.go("/") }),
    commands.add({ id: "go.work", title: "Go to work", keys: "g w", run: () => router.go("/work") }),
    commands.add({ id: "go.search", title: "Search messages", keys: "/", run: () => router.go("/search") }),
    commands.add({ id: "go.events", title: "Go to events", keys: "g e", run: () => router.go("/events") }),
    commands.add({ id: "go.status", title: "Go to status", keys: "g s", run: () => router.go("/status") }),
    commands.add({ id: "channel.create", title: "New channel", run: () => createChannel(app) }),
    commands.add({ id: "me.name", title: "Change your name", run: () => askName(app) }),
    commands.add({ id: "theme.switch", title: "Switch between light and dark", run: switchTheme }),
    commands.add({ id: "session.end", title: "Log out", run: () => logOut(app) }),
  ];
  return () => stops.forEach((stop) => stop());
}

async function logOut(app) {
  await app.api.post("/ui/logout", {});
  location.reload();
}
