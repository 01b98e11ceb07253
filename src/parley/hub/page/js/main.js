/**
 * The page's beginning: log in or resume a session, then run the app until the session ends.
 *
 * The feed starts from a cursor that is taken before anything else is read, and everything applies events
 * idempotently. So what is read by HTTP and what comes by the feed meet without a gap and without a double.
 */

import { Api } from "./api.js";
import { createAnnouncer } from "./announce.js";
import { Router } from "./router.js";
import { ROUTES } from "./routes.js";
import { startApp } from "./app.js";
import * as login from "./views/login.js";

const root = document.getElementById("app");
const announce = createAnnouncer();
const router = new Router(ROUTES);
const api = new Api({ onUnauthorized: () => showLogin({ reason: "ended" }) });
let shown = null;
let signingIn = false;

async function begin() {
  if (router.code !== null) return signIn(router.code);
  try {
    const session = await api.get("/api/v1/ui/session");
    const onLoggedOut = () => showLogin({ reason: "ended" });
    show(await startApp(root, { api, router, announce, session, onLoggedOut, onReset: beginAnew }));
  } catch (error) {
    // A fault of ours must not look like a hub that is away.
    if (error.status === undefined) throw error;
    if (error.status !== 401) showLogin({ reason: "unreachable", error });
  }
}

/** The log could not be continued: everything that was loaded may be wrong. */
function beginAnew() {
  show(null);
  return begin();
}

/** Exchanges the one-time code of the address for a session, and takes the code out of the history. */
async function signIn(code) {
  signingIn = true;
  history.replaceState(null, "", "#/");
  try {
    await api.post("/ui/login", { code });
  } catch (error) {
    // A link that was used already, opened again in the browser that it logged in, leads to the page all the same.
    const session = await api.get("/api/v1/ui/session").catch(() => null);
    if (session === null) return showLogin({ reason: "refused", error });
  } finally {
    signingIn = false;
  }
  return begin();
}

function showLogin({ reason, error }) {
  // Several requests may learn of the end at once, and a refused code is told by its own answer.
  if (reason === "ended" && (signingIn || shown?.isLogin)) return;
  show(login.mount(root, { api, reason, error, onSession: begin }));
}

function show(next) {
  shown?.unmount();
  shown = next;
}

router.onChange(() => router.code !== null && signIn(router.code));
await begin();
