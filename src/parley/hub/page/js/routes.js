/** The page's places. Each view is a module with `mount(root, app, params)`, loaded when it is first gone to. */

export const ROUTES = [
  { pattern: "/", name: "home", title: "Home", load: () => import("./views/home.js") },
  { pattern: "/c/:channel_id", name: "channel", title: "Channel", load: () => import("./views/channel.js") },
  { pattern: "/t/:topic_id", name: "topic", title: "Topic", load: () => import("./views/topic.js") },
  { pattern: "/t/:topic_id/m/:message_id", name: "topic", title: "Topic", load: () => import("./views/topic.js") },
  { pattern: "/m/:message_id", name: "message", title: "Message", load: () => import("./views/message.js") },
  { pattern: "/search", name: "search", title: "Search", load: () => import("./views/search.js") },
  { pattern: "/events", name: "events", title: "Events", load: () => import("./views/events.js") },
  { pattern: "/status", name: "status", title: "Status", load: () => import("./views/status.js") },
];
