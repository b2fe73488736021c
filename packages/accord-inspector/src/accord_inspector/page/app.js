// The frame of the page: header, navigation, and the view that the address names.

import { get, live, post } from "./api.js";
import { count, fill, h, safe } from "./dom.js";
import { address, go, params, pathParts, router } from "./router.js";
import "./faults_bar.js";
import { isShortcut, keyButton, showKeys } from "./keys.js";
import { RECORDINGS, VIEWS } from "./views.js";

/** A form that is visible while a server of the same address wants its own token. */
class LoginAgain {
  constructor() {
    this.text = /** @type {HTMLInputElement} */ (h("input", { id: "new-address", type: "text", autocomplete: "off", spellcheck: "false", placeholder: "http://127.0.0.1:…/?token=…" }));
    this.problem = h("span", { class: "bad", role: "alert" });
    this.element = h("form", { class: "problem login-again", "aria-label": "Log in again", hidden: true, onsubmit: (/** @type {Event} */ event) => this.submit(event) },
      h("label", { for: "new-address" }, "The inspector was started again, and has a new token. Open the address that it printed in another tab, or paste it here: this page continues."),
      h("span", { class: "row" }, this.text, h("button", { class: "primary" }, "Continue")), this.problem);
    live.on("connection", () => this.show());
  }

  show() {
    const wasHidden = this.element.hidden;
    this.element.hidden = live.connected || !live.isLocked;
    if (wasHidden) this.text.value = "";
    fill(this.problem);
  }

  /** @param {Event} event */
  async submit(event) {
    event.preventDefault();
    fill(this.problem);
    const given = this.text.value.trim();
    const other = URL.canParse(given) && new URL(given).origin !== location.origin;
    try {
      if (other) fill(this.problem, `This page is at ${location.origin}: open the other address in a new tab`);
      else if (!(await live.unlock(given))) fill(this.problem, "Not the token of this inspector: paste the address that it printed last");
    } catch (error) {
      fill(this.problem, /** @type {Error} */ (error).message);
    }
  }
}

/** @type {any} what is inspected */
let inspection = { kind: "", live: false, title: "" };

const title = h("span", { class: "title" });
const state = h("span", { class: "state", role: "status" });
const lines = h("span", { class: "lines warn" });
const broken = h("a", { class: "broken bad", hidden: true });
const counts = h("span", { class: "counts" });
const restart = h("button", { type: "button", hidden: true, onclick: startAgain }, "Start again");
const nav = h("nav", { "aria-label": "Views" });
const main = h("main", { id: "main", tabindex: "-1" });
const problem = h("p", { class: "problem", role: "alert", hidden: true });
const loginAgain = new LoginAgain();
const showAllKeys = () => showKeys([...VIEWS, RECORDINGS]);

/** Return the views that make sense for what is inspected. */
function views() {
  const some = VIEWS.filter((view) => inspection.live || !view.live);
  return inspection.kind === "folder" ? [RECORDINGS, ...some] : some;
}

/** Show the view that the address names. */
function show() {
  const all = views();
  const name = pathParts()[0];
  const view = all.find((item) => item.path === name);
  const recording = params().get("recording") ?? "";
  const isFolder = inspection.kind === "folder";
  if (!view || (isFolder && !recording && view !== RECORDINGS)) {
    go(isFolder ? "/recordings" : address([all[0].path]), { replace: true });
    return;
  }
  const isOfOne = !isFolder || recording;
  if (isOfOne && live.watched?.recording !== recording) {
    live.watch({}, { recording });
    showBroken(0);
  }
  fill(title, safe(recording ? `${inspection.title} / ${recording}` : inspection.title));
  fill(nav, all.map((item) => link(item, item === view)));
  const current = nav.querySelector("[aria-current]"); // not all fit on a small screen
  if (nav.scrollWidth > nav.clientWidth) current?.scrollIntoView({ block: "nearest", inline: "center" });
  document.title = `${view.title} · ${safe(recording || inspection.title)} · Accord Inspector`;
  if (main.firstElementChild?.localName !== view.tag) fill(main, h(view.tag));
}

/** @param {import("./views.js").View} view @param {boolean} isCurrent */
function link(view, isCurrent) {
  const isOfRecording = inspection.kind === "folder" && view !== RECORDINGS;
  if (isOfRecording && !params().get("recording")) return null;
  const href = view === RECORDINGS ? "/recordings" : address([view.path]);
  return h("a", { href, "aria-current": isCurrent ? "page" : null, "aria-keyshortcuts": view.key }, view.title);
}

/** Show the state of the agent and of the connection. */
function showState() {
  const agent = live.state.process;
  const lost = !live.connected && live.state.inspection;
  let text = "";
  let kind = "";
  if (lost) [text, kind] = [live.isLocked ? "The inspector was started again" : "The inspector has ended or does not respond", "bad"];
  else if (agent) {
    const words = { starting: "starting", running: "running", ended: "ended", failed: "failed" };
    text = `Agent ${words[agent.state] ?? agent.state}`;
    if (agent.trouble?.text) text += `: ${safe(agent.trouble.text)}`;
    kind = { running: "good", starting: "" }[agent.state] ?? "bad";
    if (agent.trouble?.text && kind !== "bad") kind = "warn";
  }
  if (state.textContent !== text) fill(state, text); // a screen reader says it once
  fill(lines, lost ? "" : safe(agent?.trouble?.lines ?? ""));
  state.className = `state ${kind}`;
  restart.hidden = !agent || lost || agent.restartable === false;
  restart.textContent = agent?.state === "running" ? "Restart" : "Start again";
}

/** After the connection was lost: show what is inspected now, at the same address of the page. */
async function found() {
  showState();
  if (!live.connected || !inspection.start) return;
  const now = await get("/api/inspection").catch(() => null);
  if (!now || now.start === inspection.start) return;
  if (now.version !== inspection.version) return location.reload();
  const isOther = now.kind !== inspection.kind || now.title !== inspection.title;
  inspection = now;
  live.watched = null;
  fill(main);
  show();
  showProblem(isOther ? `The inspector was started again, with ${now.title}` : "");
}

async function startAgain() {
  try {
    await post("/api/agent/restart");
  } catch (error) {
    showProblem(error.message);
  }
}

/** Link to the messages that break rules. @param {number} found how many there are */
function showBroken(found) {
  broken.hidden = found === 0;
  broken.setAttribute("href", address(["timeline"], { rule: "any" }));
  fill(broken, found === 1 ? "⚠ 1 message breaks a rule" : `⚠ ${count(found)} messages break rules`);
}

/** @param {any} now the newest counts */
function countsText(now) {
  const parts = [now.total === 1 ? "1 message" : `${count(now.total)} messages`];
  if (now.rate >= 1) parts.push(`${count(Math.round(now.rate))}/s`);
  if (now.sampled && inspection.live) parts.push("sampled: they come faster than a page can show");
  return parts.join(" · ");
}

/** @param {string} text */
function showProblem(text) {
  problem.hidden = !text;
  fill(problem, text && [safe(text), h("button", { type: "button", onclick: () => showProblem("") }, "Dismiss")]);
}

/** @param {KeyboardEvent} event */
function key(event) {
  if (!isShortcut(event)) return;
  if (event.key === "?") {
    event.preventDefault();
    showAllKeys();
  }
  const view = views().find((item) => item.key === event.key);
  if (view) go(view === RECORDINGS ? "/recordings" : address([view.path]));
}

async function begin() {
  inspection = await get("/api/inspection");
  document.body.append(
    h("a", { class: "skip", href: "#main" }, "Skip to the content"),
    h("header", { class: "top" }, h("h1", null, "Accord Inspector"), title, state, lines, broken, h("span", { class: "end" }, counts, restart, keyButton("Keys", "?", showAllKeys))),
    nav,
    h("div", null, loginAgain.element, problem, h("faults-bar", { hidden: true })),
    main,
  );
  document.body.classList.add("app");
  router.addEventListener("change", show);
  addEventListener("keydown", key);
  live.on("state:process", showState);
  live.on("connection", found);
  live.on("state:problems", (problems) => problems.length && showProblem(problems.at(-1)));
  live.on("messages", (now) => {
    if (now.problem) showProblem(now.problem);
    else fill(counts, countsText(now));
    showBroken(now.broken ?? 0);
  });
  live.start();
  show();
}

begin().catch((error) => {
  document.body.className = "notice";
  fill(document.body, h("main", null, h("h1", null, "The inspector does not respond"), h("p", null, error.message)));
});
