// What was sent by hand to this agent: the inspector keeps it while it runs, the browser for later.

import { live, post } from "./api.js";
import { fill, h, safe } from "./dom.js";

const MAX = 50;

export class History {
  /** @param {(entry: any) => void} chosen called to edit an entry again */
  constructor(chosen) {
    this.chosen = chosen;
    this.key = "";
    /** @type {any[]} the newest first */
    this.entries = [];
    this.list = h("ol", { class: "history" });
    const clear = h("button", { type: "button", onclick: () => this.clear() }, "Clear");
    this.element = h("div", null, h("h3", null, "History"), this.list, clear);
  }

  /** Show the entries of an agent. @param {string} agent */
  open(agent) {
    const key = `accord-inspect-sent:${agent}`;
    if (key === this.key) return;
    this.key = key;
    try {
      this.entries = JSON.parse(localStorage.getItem(key) ?? "[]");
    } catch {
      this.entries = [];
    }
    this.draw();
    this.take();
  }

  /** Add what the inspector keeps: other pages may have sent it. */
  take() {
    const sent = live.state.sent ?? [];
    if (!this.key || !sent.length) return;
    const known = new Set(sent.map(canonical));
    const entries = [...sent, ...this.entries.filter((one) => !known.has(canonical(one)))].slice(0, MAX);
    if (JSON.stringify(entries) !== JSON.stringify(this.entries)) this.save(entries);
  }

  async clear() {
    live.state.sent = [];
    this.save([]);
    await post("/api/send/forget").catch(() => {});
  }

  /** @param {any[]} entries */
  save(entries) {
    this.entries = entries;
    try {
      localStorage.setItem(this.key, JSON.stringify(entries));
    } catch {
      // Full or forbidden: the history lasts until the page is closed.
    }
    this.draw();
  }

  draw() {
    /** @type {any} */ (this.element.lastElementChild).hidden = !this.entries.length;
    if (!this.entries.length) {
      fill(this.list, h("li", { class: "soft" }, "Nothing was sent yet."));
      return;
    }
    fill(this.list, this.entries.map((entry) => {
      const text = entry.raw ?? JSON.stringify(entry.params) ?? "";
      return h("li", null, h("button", { type: "button", class: "entry", title: "Edit and send again", onclick: () => this.chosen(structuredClone(entry)) },
        h("b", null, safe(entry.method ?? "raw frame")), " ", h("code", null, safe(text.slice(0, 120)))));
    }));
  }
}

/** Return a text that is the same for the same message, whatever the order of its keys. @param {any} entry */
function canonical(entry) {
  return JSON.stringify(Object.entries(entry).sort(([a], [b]) => (a < b ? -1 : 1)));
}
