// The view "Recordings": the recordings of a folder, newest first, and a filter of their names.

import { get } from "./api.js";
import { count, fill, h, safe, size } from "./dom.js";
import { address, go, params, pathParts, router } from "./router.js";

const AGAIN_MS = 500; // until a list that is incomplete is asked for again
const TYPING_MS = 200; // after the last key

class RecordingsView extends HTMLElement {
  connectedCallback() {
    this.pattern = params().get("name") ?? "";
    this.status = h("p", { class: "soft", role: "status" }, "Reading the recordings…");
    this.problems = h("p", { class: "bad", hidden: true });
    this.filter = h("input", {
      type: "search",
      value: this.pattern,
      "aria-label": "Names of recordings",
      placeholder: "Name, codex-*/task-1*",
    });
    this.filter.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.filtered(), TYPING_MS);
    });
    this.body = h("tbody");
    const heads = ["Title", "Agent", "Time", "Size", "Turns", "File"];
    this.table = h(
      "table",
      { class: "recordings", hidden: true },
      h("thead", null, h("tr", null, heads.map((text) => h("th", { scope: "col" }, text)))),
      this.body,
    );
    this.replaceChildren(
      h("h2", null, "Recordings"),
      h("p", { class: "recordings-filter" }, this.filter),
      this.status,
      this.problems,
      this.table,
    );
    /** @type {any[]} the rows that are shown */
    this.rows = [];
    this.onaddress = () => this.addressChanged();
    router.addEventListener("change", this.onaddress);
    this.load(true);
  }

  disconnectedCallback() {
    router.removeEventListener("change", this.onaddress);
    clearTimeout(this.typing);
    clearTimeout(this.again);
    this.asked?.abort();
  }

  filtered() {
    go(address(["recordings"], { name: this.filter.value.trim() }), { replace: true });
  }

  addressChanged() {
    const pattern = params().get("name") ?? "";
    if (pathParts()[0] !== "recordings" || pattern === this.pattern) return;
    this.pattern = pattern;
    if (this.filter.value.trim() !== pattern) this.filter.value = pattern;
    this.load(true);
  }

  /** @param {boolean} [isFirst] whether the list may be put into another order */
  async load(isFirst = false) {
    clearTimeout(this.again);
    this.asked?.abort();
    this.asked = new AbortController();
    let found;
    try {
      found = await get("/api/recordings", { name: this.pattern }, this.asked.signal);
    } catch (error) {
      if (error.name !== "AbortError") fill(this.status, error.message);
      return;
    }
    const rows = found.recordings;
    // When they began says more than when their files were changed, if all of it is known.
    if (isFirst && found.complete && found.matched === rows.length) {
      rows.sort((a, b) => (b.time ?? "").localeCompare(a.time ?? "") || a.name.localeCompare(b.name));
    }
    fill(this.status, statusText(found, this.pattern));
    this.problems.hidden = found.problems.length === 0;
    fill(this.problems, safe(found.problems.join("; ")));
    this.show(rows);
    this.table.hidden = rows.length === 0;
    if (!found.complete) this.again = setTimeout(() => this.load(), AGAIN_MS);
  }

  /** Show rows; those that are the same stay, with the focus. @param {any[]} rows */
  show(rows) {
    const isSame = rows.length === this.rows.length && rows.every((item, at) => item.name === this.rows[at].name);
    if (isSame) {
      rows.forEach((item, at) => {
        if (JSON.stringify(item) !== JSON.stringify(this.rows[at])) this.body.children[at].replaceWith(row(item));
      });
    } else {
      fill(this.body, rows.map(row));
    }
    this.rows = rows;
  }
}

/** Return how many recordings there are, and what to do about too many. @param {any} found @param {string} pattern */
function statusText(found, pattern) {
  const { matched, total, recordings } = found;
  const all = `${count(total)} recording${total === 1 ? "" : "s"}${found.found ? "" : " found so far"}`;
  if (recordings.length < matched) {
    const some = pattern ? `${count(matched)} that match, of ${all}` : all;
    return `The newest ${count(recordings.length)} of ${some}. To see others, type a part of a name, or a pattern such as codex-*/task-1*.`;
  }
  if (!pattern) return all;
  return matched ? `${count(matched)} of ${all}` : `No name of ${all} matches ${safe(pattern)}`;
}

/** @param {any} item */
function row(item) {
  const href = `/timeline?recording=${encodeURIComponent(item.name)}`;
  const turns = item.pending ? "…" : `${count(item.turns)}${item.complete ? "" : " or more"}`;
  return h(
    "tr",
    { onclick: (event) => event.target.closest("a") || go(href) },
    cell("Title", h("a", { href }, safe(item.title || item.name))),
    cell("Agent", safe(item.agent ?? "") || "–"),
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
