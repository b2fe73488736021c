// The view "Timeline": every message, as a list or as a sequence diagram, and the chosen one.

import { get, live, queryOf } from "./api.js";
import { count, fill, h, safe } from "./dom.js";
import "./message.js";
import { finderOf } from "./message-text.js";
import { address, go, messageAddress, messageOf, params, pathParts, router } from "./router.js";
import { Sequence } from "./sequence.js";
import { FilterBar, filterOf } from "./timeline-filter.js";
import { keyButton } from "./keys.js";
import { handleKey } from "./timeline-keys.js";
import { Jumps } from "./timeline-jumps.js";
import { VirtualList } from "./timeline-list.js";
import { positionAt, RowMarks } from "./timeline-marks.js";
import { createHeader, createRow, fillRow, showSort } from "./timeline-row.js";
import { RowStore } from "./timeline-rows.js";
import { statusText } from "./timeline-status.js";

const LIST_ROW = 28; // pixels
const SEQUENCE_ROW = 40;
const EXPORTS = [["har", "HAR"], ["md", "Markdown"]];
const NAMES_MS = 2000; // between two looks at the names of sessions and methods, and at the rules

class TimelineView extends HTMLElement {
  connectedCallback() {
    this.store = new RowStore();
    this.sequence = new Sequence();
    this.filterBar = new FilterBar((filter) => this.setFilter(filter));
    this.list = new VirtualList({
      rowHeight: LIST_ROW,
      create: () => (this.isSequence ? this.sequence.createRow() : createRow()),
      render: (element, position) => this.render(element, position),
      label: "Messages",
    });
    this.isSequence = false;
    this.isPaused = false;
    this.isFollowing = false;
    this.waiting = { total: 0, matched: 0, complete: false }; // the counts while paused
    this.filterText = "?";
    this.hasFilter = false;
    this.marks = new RowMarks(this.list, this.store);
    this.jumps = new Jumps(this);
    this.build();
    this.store.onrows = () => this.rowsCame();
    this.store.onproblem = (text) => this.say(text, true);
    this.list.onrendered = () => this.rendered();
    this.list.onscrolled = (isUsers) => this.scrolled(isUsers);
    const changed = () => this.apply();
    const key = (/** @type {KeyboardEvent} */ event) => handleKey(this, event);
    router.addEventListener("change", changed);
    document.addEventListener("keydown", key);
    const timer = setInterval(() => this.loadNames(), NAMES_MS);
    this.ends = [
      live.on("messages", (counts) => this.counted(counts)),
      () => router.removeEventListener("change", changed),
      () => document.removeEventListener("keydown", key),
      () => clearInterval(timer),
      () => this.list.resized.disconnect(),
      () => this.store.reset({}),
    ];
    this.apply();
    this.loadNames();
  }

  disconnectedCallback() {
    for (const end of this.ends ?? []) end();
  }

  build() {
    this.pauseButton = keyButton("Pause", "Space", () => this.pause(!this.isPaused));
    this.followButton = keyButton("Follow", "f", () => this.follow(!this.isFollowing));
    this.viewButton = keyButton("Sequence", "v", () => this.switchView());
    this.exports = h("details", { class: "exports" }, h("summary", null, "Export"),
      h("div", { class: "menu" }, EXPORTS.map(([form, text]) => h("a", { "data-form": form, download: "" }, text)),
        h("small", { class: "soft" }, "What the list has, with the requests and responses that belong to it. Secrets are replaced.")));
    const closeExports = (/** @type {any} */ event) => !this.exports.contains(event.relatedTarget) && this.exports.removeAttribute("open");
    this.exports.addEventListener("focusout", closeExports);
    this.status = h("p", { class: "list-status" });
    this.header = createHeader((sort) => this.setSort(sort));
    this.message = /** @type {any} */ (h("message-view", { hidden: true }));
    this.list.setHeader(this.header);
    this.list.element.addEventListener("click", (event) => this.clicked(event));
    this.list.element.addEventListener("pointerover", (event) => this.marks.hovered(event));
    this.list.element.addEventListener("pointerleave", () => this.marks.hovered(null));
    this.list.element.addEventListener("focus", () => this.list.active < 0 && this.activate(this.list.range[0]));
    this.replaceChildren(
      h("h2", { class: "visually-hidden" }, "Timeline"),
      h("div", { class: "bar" }, this.filterBar.element,
        h("div", { class: "tools" }, this.pauseButton, this.followButton, this.viewButton, this.exports)),
      this.status,
      h("div", { class: "split" }, this.list.element, this.message),
    );
  }

  // The address, and the counts of the server.

  /** Show what the address says. */
  apply() {
    if (pathParts()[0] !== "timeline") return;
    const query = params();
    const filter = filterOf(query);
    this.filterBar.show(filter);
    showSort(this.header, filter.sort ?? "");
    for (const link of this.exports.querySelectorAll("a")) {
      const { sort, ...listed } = filter;
      link.setAttribute("href", `/api/export?${queryOf({ ...listed, recording: query.get("recording"), format: link.dataset.form })}`);
    }
    if (query.get("view") === "sequence") delete filter.sort; // arrows are in the order of time
    const recording = query.get("recording") ?? "";
    const text = JSON.stringify([filter, recording]);
    if (text !== this.filterText) {
      this.filterText = text;
      this.hasFilter = Object.keys(filter).some((name) => name !== "sort");
      this.isPaused = false;
      this.note = "";
      this.list.active = -1;
      this.list.setTotal(0);
      this.store.reset({ ...filter, recording });
      live.watch(filter, { recording });
      this.list.refresh();
      this.say("");
    }
    this.showAs(query.get("view") === "sequence");
    this.message.search(filter.text ?? "");
    this.finder = finderOf(filter.text ?? "");
    this.open(pathParts()[1]);
    this.showState();
  }

  /** @param {Record<string, any>} filter */
  setFilter(filter) {
    const view = params().get("view");
    go(address(pathParts(), { ...filter, ...(view ? { view } : {}) }), { replace: true });
  }

  /** @param {string} sort */
  setSort(sort) {
    const query = params();
    if (sort) query.set("sort", sort);
    else query.delete("sort");
    go(address(pathParts(), query), { replace: true });
  }

  /** @param {any} counts */
  counted(counts) {
    if (counts.problem) return this.say(counts.problem, true);
    this.waiting = counts;
    if (this.isPaused) this.showState();
    else this.take();
  }

  take() {
    this.store.counted(this.waiting);
    this.rowsCame();
  }

  rowsCame() {
    const shown = this.isPaused ? this.list.total : this.store.matched;
    if (shown !== this.list.total) this.list.setTotal(shown);
    if (this.isFollowing && !this.isPaused) this.list.scrollTo(this.list.maxTop);
    this.list.refresh();
    this.showState();
    this.jumps.again();
  }

  async loadNames() {
    if (document.hidden) return;
    const recording = params().get("recording") ?? "";
    try {
      const [names, judged] = await Promise.all([get("/api/names", { recording }), get("/api/rules", { recording })]);
      this.filterBar.setNames(names);
      if (this.sequence.set(names.components, names.sessions)) {
        this.sequence.style(this.list.spacer);
        if (this.isSequence) this.list.refresh();
      }
      this.filterBar.setRules(judged.rules);
      if (judged.found !== this.found) {
        if (this.found !== undefined) this.store.invalidate();
        this.message.refreshRules();
        this.found = judged.found;
      }
      this.judged = judged;
      this.list.refresh(); // how long requests wait
      this.showState();
    } catch (error) {
      this.say(/** @type {Error} */ (error).message, true);
    }
  }

  /** @param {string} [note] what a key did; shown until the active row changes */
  showState(note = this.note) {
    this.note = note;
    const more = this.isPaused ? this.waiting.matched - this.list.total : 0;
    this.pauseButton.firstChild.textContent = this.isPaused ? (more > 0 ? `Continue: ${count(more)} new` : "Continue") : "Pause";
    this.pauseButton.setAttribute("aria-pressed", String(this.isPaused));
    this.followButton.setAttribute("aria-pressed", String(this.isFollowing));
    if (!this.problem) fill(this.status, statusText(this.store, this.hasFilter, this.judged, this.note ?? ""));
  }

  /** @param {string} text @param {boolean} [isProblem] */
  say(text, isProblem = false) {
    this.problem = isProblem;
    this.status.classList.toggle("bad", isProblem);
    fill(this.status, text);
    if (!isProblem) this.showState();
  }

  // The list.

  /** @param {HTMLElement} element @param {number} position */
  render(element, position) {
    const row = this.store.at(position);
    if (this.isSequence) this.sequence.fillRow(element, row);
    else fillRow(element, row, this.finder);
    element.id = `row-${position}`;
    this.marks.mark(element, position);
  }

  rendered() {
    this.store.want(...this.list.range);
    const isVisible = this.list.elementAt(this.list.active);
    if (isVisible) this.list.element.setAttribute("aria-activedescendant", isVisible.id);
    else this.list.element.removeAttribute("aria-activedescendant");
  }

  /** @param {boolean} isUsers */
  scrolled(isUsers) {
    if (isUsers && this.isFollowing && !this.list.isAtEnd) this.follow(false);
  }

  /** @param {Event} event */
  clicked(event) {
    const position = positionAt(event);
    if (position < 0) return;
    this.activate(position);
    this.openActive();
  }

  /** Make a row the active one, and show it. @param {number} position */
  activate(position) {
    if (!this.list.total) return;
    this.list.active = Math.min(Math.max(0, position), this.list.total - 1);
    this.showState("");
    if (this.isFollowing && this.list.active < this.list.total - 1) this.follow(false);
    this.list.show(this.list.active);
    this.marks.markAll();
    this.rendered();
    return this.marks.chosen >= 0 ? this.openActive() : undefined;
  }

  async openActive() {
    const position = this.list.active;
    const row = await this.store.fetchRow(position);
    if (row && position === this.list.active) this.goTo(row.n);
  }

  /** @param {number | null} n the message to open, null to close it */
  goTo(n) {
    const target = n === null ? address(["timeline"], params()) : messageAddress(n, params());
    if (n !== this.marks.chosen) go(target, { replace: n !== null && this.marks.chosen >= 0 });
  }

  /** Show a message beside the list. @param {string | undefined} name its number as people read it */
  open(name) {
    if (name === this.opened) return;
    this.opened = name;
    const n = messageOf(name ?? "");
    const isNumber = Number.isInteger(n) && n >= 0;
    this.marks.chosen = isNumber ? n : -1;
    this.classList.toggle("with-message", name !== undefined);
    this.message.hidden = name === undefined;
    if (name === undefined) {
      this.message.clear();
      this.list.element.focus();
    } else if (!isNumber) {
      this.message.showProblem(`There is no message ${safe(name)}: messages are counted from 1`);
    } else {
      this.message.show(n);
      if (this.store.at(this.list.active)?.n !== n) this.jumps.locate(n);
    }
    this.marks.markAll();
  }

  // What the user does.

  /** @param {boolean} isPaused */
  pause(isPaused) {
    this.isPaused = isPaused;
    if (isPaused) this.showState();
    else this.take();
  }

  /** @param {boolean} isFollowing */
  follow(isFollowing) {
    this.isFollowing = isFollowing;
    if (isFollowing) this.rowsCame();
    else this.showState();
  }

  switchView() {
    const query = params();
    if (this.isSequence) query.delete("view");
    else query.set("view", "sequence");
    go(address(pathParts(), query), { replace: true });
  }

  /** @param {boolean} isSequence */
  showAs(isSequence) {
    if (isSequence === this.isSequence) return;
    this.isSequence = isSequence;
    this.viewButton.firstChild.textContent = isSequence ? "List" : "Sequence";
    this.classList.toggle("as-sequence", isSequence);
    this.list.setHeader(isSequence ? this.sequence.heads : this.header);
    this.sequence.style(this.list.spacer);
    this.list.reset();
    this.list.setRowHeight(isSequence ? SEQUENCE_ROW : LIST_ROW);
  }
}

customElements.define("view-timeline", TimelineView);
