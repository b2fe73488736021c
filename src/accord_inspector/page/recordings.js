// The view "Recordings": the recordings of a folder, newest first.

import { get } from "./api.js";
import { count, fill, h, safe, size } from "./dom.js";
import { go } from "./router.js";

class RecordingsView extends HTMLElement {
  connectedCallback() {
    this.status = h("p", { class: "soft", role: "status" }, "Reading the recordings…");
    this.body = h("tbody");
    const heads = ["Title", "Agent", "Time", "Size", "Turns", "File"];
    this.table = h(
      "table",
      { class: "recordings", hidden: true },
      h("thead", null, h("tr", null, heads.map((text) => h("th", { scope: "col" }, text)))),
      this.body,
    );
    this.replaceChildren(h("h2", null, "Recordings"), this.status, this.table);
    this.load();
  }

  async load() {
    let found;
    try {
      found = (await get("/api/recordings")).recordings;
    } catch (error) {
      fill(this.status, error.message);
      return;
    }
    found.sort((a, b) => (b.time ?? "").localeCompare(a.time ?? "") || a.name.localeCompare(b.name));
    fill(this.status, found.length === 1 ? "1 recording" : `${count(found.length)} recordings`);
    fill(this.body, found.map(row));
    this.table.hidden = false;
  }
}

/** @param {any} item */
function row(item) {
  const href = `/timeline?recording=${encodeURIComponent(item.name)}`;
  const turns = `${count(item.turns)}${item.complete ? "" : " or more"}`;
  return h(
    "tr",
    { onclick: (event) => event.target.closest("a") || go(href) },
    cell("Title", h("a", { href }, safe(item.title || item.name))),
    cell("Agent", safe(item.agent) || "–"),
    cell("Time", item.time ? h("time", { datetime: item.time }, shortTime(item.time)) : "–"),
    cell("Size", size(item.size)),
    cell("Turns", item.problem ? h("span", { class: "bad" }, safe(item.problem)) : turns),
    cell("File", h("code", null, safe(item.name))),
  );
}

/** A cell that shows its heading where the table is too wide. @param {string} head @param {any} child */
function cell(head, child) {
  return h("td", { "data-head": head }, child);
}

/** @param {string} time RFC 3339 */
function shortTime(time) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return time;
  return date.toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "short" });
}

customElements.define("view-recordings", RecordingsView);
