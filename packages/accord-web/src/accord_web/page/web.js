// The frame of the page: who this device is, the connection, and the view that the address names.

import { ApiError, get, live } from "./api.js";
import { fill, h } from "./dom.js";
import { DevicesView } from "./devices.js";
import { NewSession } from "./new_session.js";
import { notices } from "./notices.js";
import { PairView, unpaired } from "./pair.js";
import { pathParts, router, shownSession } from "./router.js";
import { SessionsList } from "./sessions_list.js";
import "./talk.js";

const main = h("main", { id: "main", tabindex: "-1" });
const connection = h("p", { class: "connection", role: "status", hidden: true });
const title = h("h1", null, h("a", { href: "/" }, "Accord"));
const waiting = h("a", { class: "waiting-for-you", href: "/", hidden: true });
const menu = h("nav", { "aria-label": "Pages" });
/** @type {any} */
let me = null;
let shown = "";

function show() {
  const [name = "sessions"] = pathParts();
  const session = shownSession();
  live.follow(session.split("/")[0]);
  const key = name === "session" ? `session ${session}` : name;
  if (key === shown) return;
  shown = key;
  document.body.classList.toggle("in-session", name === "session");
  if (name === "session") fill(main, h("view-conversation", { class: "one" }));
  else if (name === "new") fill(main, new NewSession(me).element);
  else if (name === "devices") fill(main, new DevicesView(me).element);
  else fill(main, new SessionsList(me).element);
  for (const link of menu.querySelectorAll("a")) {
    link.toggleAttribute("aria-current", link.getAttribute("href") === location.pathname);
  }
  main.scrollTop = 0;
  showWaiting(live.state.sessions ?? []);
}

/** Say that what is shown is old, when there is no connection. @param {boolean} isConnected */
function showConnection(isConnected) {
  connection.hidden = isConnected;
  fill(connection, isConnected ? "" : "No connection to the computer. What you see is from before; it continues when the connection is back.");
  document.body.classList.toggle("offline", !isConnected);
}

/** @param {any[]} sessions */
function showWaiting(sessions) {
  const others = sessions.filter((session) => session.state === "waits" && session.id !== shownSession().split("/")[0]);
  waiting.hidden = !others.length || pathParts()[0] === undefined; // the list has them first
  if (!others.length) return;
  waiting.setAttribute("href", others.length === 1 ? `/session/${others[0].id}` : "/");
  fill(waiting, others.length === 1 ? "Another session waits for you" : `${others.length} other sessions wait for you`);
}

async function begin() {
  if (pathParts()[0] === "pair" && location.hash) {
    document.body.className = "notice";
    fill(document.body, new PairView(location.hash.slice(1)).element);
    history.replaceState(null, "", "/pair"); // the code is not left in the address
    return;
  }
  try {
    me = await get("/api/me");
    localStorage.setItem("me", JSON.stringify(me));
  } catch (error) {
    if (/** @type {ApiError} */ (error).status === 401) return lock();
    me = JSON.parse(localStorage.getItem("me") ?? "null"); // without a connection: the last state
    if (!me) throw error;
  }
  document.body.className = "web";
  fill(menu,
    h("a", { href: "/" }, "Sessions"),
    me.role === "full" ? h("a", { href: "/new" }, "New") : null,
    me.role === "full" ? h("a", { href: "/devices" }, "Devices") : null);
  fill(document.body,
    h("a", { class: "skip", href: "#main" }, "Skip to the content"),
    h("header", { class: "top" }, title, menu, waiting),
    connection, main);
  router.addEventListener("change", show);
  live.on("connection", showConnection);
  live.on("state:sessions", (/** @type {any[]} */ sessions) => {
    showWaiting(sessions);
    notices.sessions(sessions);
  });
  live.on("revoked", lock);
  show();
  navigator.serviceWorker?.register("/offline.js").catch(() => {});
}

/** This browser is no device of the server: show how to pair it. */
function lock() {
  live.stop();
  for (const key of ["me", "sessions"]) localStorage.removeItem(key);
  document.body.className = "notice";
  fill(document.body, unpaired());
}

begin().catch((error) => {
  document.body.className = "notice";
  fill(document.body, h("main", null, h("h1", null, "No connection"), h("p", null, error.message), h("button", { type: "button", onclick: () => location.reload() }, "Try again")));
});
