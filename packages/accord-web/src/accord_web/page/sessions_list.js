// The first screen: the sessions by project, those that wait for the user first, and the search.

import { get, live } from "./api.js";
import { fill, h } from "./dom.js";
import { notices } from "./notices.js";

const STATES = { waits: "waits for you", works: "works", starting: "starting", idle: "idle", failed: "failed" };

export class SessionsList {
  /** @param {any} me */
  constructor(me) {
    this.me = me;
    this.list = h("div", { class: "projects" });
    this.found = h("div", { class: "found", role: "status" });
    this.notify = h("button", { type: "button", hidden: !notices.canAsk, onclick: () => this.ask() }, "Notify me when an agent waits");
    this.text = /** @type {HTMLInputElement} */ (h("input", { type: "search", id: "search", placeholder: "Search in all sessions", "aria-label": "Search in all sessions", autocomplete: "off" }));
    this.element = h("section", { class: "list", "aria-label": "Sessions" },
      h("form", { class: "search", role: "search", onsubmit: (/** @type {Event} */ event) => this.search(event) }, this.text, h("button", null, "Search")),
      this.found, this.list, this.notify);
    notices.titled("Accord");
    const kept = localStorage.getItem("sessions");
    this.show(live.state.sessions ?? (kept ? JSON.parse(kept) : null));
    this.stop = live.on("state:sessions", (sessions) => {
      if (!this.element.isConnected) return this.stop();
      localStorage.setItem("sessions", JSON.stringify(sessions.slice(0, 50)));
      this.show(sessions);
    });
  }

  async ask() {
    await notices.ask();
    this.notify.hidden = !notices.canAsk;
  }

  /** @param {any[] | null} sessions */
  show(sessions) {
    if (!sessions) return fill(this.list, h("p", { class: "soft" }, "Loading…"));
    if (!sessions.length) {
      return fill(this.list, h("div", { class: "empty" }, h("p", null, "No sessions yet."),
        this.me.role === "full" && this.me.roots.length ? h("p", null, h("a", { href: "/new" }, "Start one here"), ", or on the computer with ", h("code", null, "accord chat"), ".")
          : h("p", null, "Start one on the computer with ", h("code", null, "accord chat"), ".")));
    }
    const active = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.id;
    const waits = sessions.filter((session) => session.state === "waits");
    const projects = new Map();
    for (const session of sessions) {
      if (session.state !== "waits") projects.set(session.project, [...(projects.get(session.project) ?? []), session]);
    }
    fill(this.list,
      waits.length ? h("section", { class: "project" }, h("h2", null, "Wait for you"), h("ul", null, waits.map((session) => this.line(session)))) : null,
      [...projects].map(([project, found]) => h("section", { class: "project" }, h("h2", null, project), h("ul", null, found.map((/** @type {any} */ session) => this.line(session))))));
    if (active) /** @type {HTMLElement | null} */ (this.list.querySelector(`[data-id="${CSS.escape(active)}"]`))?.focus();
  }

  /** @param {any} session */
  line(session) {
    const facts = [session.agent, session.files && `${session.files} changed ${session.files === 1 ? "file" : "files"}`, session.cost, session.queued && `${session.queued} queued`, session.clients.length && `open in ${session.clients.join(", ")}`].filter(Boolean);
    return h("li", null, h("a", { href: `/session/${session.id}`, class: ["line", session.state], "data-id": session.id },
      h("span", { class: "title" }, session.title),
      h("span", { class: "state" }, STATES[/** @type {"waits"} */ (session.state)] ?? session.state),
      h("span", { class: "last" }, session.question || session.line),
      h("span", { class: "facts soft" }, facts.join(" · "))));
  }

  /** @param {Event} event */
  async search(event) {
    event.preventDefault();
    const text = this.text.value.trim();
    if (!text) return fill(this.found);
    try {
      const { found } = await get("/api/search", { text });
      fill(this.found, h("h2", null, found.length ? `Found in ${found.length} ${found.length === 1 ? "session" : "sessions"}` : "Found nothing"),
        h("ul", null, found.map((/** @type {any} */ hit) => h("li", null, h("a", { class: "line", href: `/session/${hit.session}` },
          h("span", { class: "title" }, hit.title), h("span", { class: "last" }, hit.text))))));
    } catch (error) {
      fill(this.found, h("p", { class: "bad" }, error.message));
    }
  }
}
