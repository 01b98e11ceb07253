/**
 * The page's places, and the views that show them: modules with `mount(root, app, params)`.
 *
 * All of them are loaded with the page. They are small and come from this machine; loaded on demand, one could be
 * missing just when the hub is away.
 */

import * as channel from "./views/channel.js";
import * as events from "./views/events.js";
import * as home from "./views/home.js";
import * as search from "./views/search.js";
import * as status from "./views/status.js";
import * as topic from "./views/topic.js";
import * as work from "./views/work.js";

export const ROUTES = [
  { pattern: "/", name: "home", title: "Home", view: home },
  { pattern: "/c/:channel_id", name: "channel", title: "Channel", view: channel },
  { pattern: "/t/:topic_id", name: "topic", title: "Topic", view: topic },
  { pattern: "/t/:topic_id/m/:message_id", name: "topic", title: "Topic", view: topic },
  { pattern: "/work", name: "work", title: "Work", view: work },
  { pattern: "/search", name: "search", title: "Search", view: search },
  { pattern: "/events", name: "events", title: "Events", view: events },
  { pattern: "/status", name: "status", title: "Status", view: status },
];
