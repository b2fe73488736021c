// The view "Waterfall": a bar for the time of each request, by session and turn.

import { get, live } from "./api.js";
import { count, duration, fill, h, safe } from "./dom.js";
import { isShortcut, keyButton } from "./keys.js";
import { address, go, messageAddress, params, pathParts, router, shownNumber } from "./router.js";
import { VirtualList } from "./timeline-list.js";
import { laneOf, shortSession } from "./timeline-row.js";

const ROW = 28; // pixels
const BLOCK = 200;
const MAX_BLOCKS = 30;
const AGAIN_MS = 500;
const TICKS = 4;

class WaterfallView extends HTMLElement {
  connectedCallback() {
    /** @type {Map<number, any[]>} */
    this.blocks = new Map();
    /** @type {Set<number>} */
    this.running = new Set();
    this.total = 0;
    this.span = { start: 0, end: 0 }; // of the recording
    /** @type {{start: number, end: number} | null} the part of it that is shown */
    this.zoom = null;
    this.list = new VirtualList({ rowHeight: ROW, create: createRow, render: (element, at) => this.render(element, at), label: "Requests" });
    this.list.onrendered = () => this.rendered();
    this.axis = h("span", { class: "axis", role: "columnheader" });
    this.list.setHeader(h("div", { class: "fall-row heading", role: "row", "aria-rowindex": "1" },
      h("span", { role: "columnheader" }, "Request"), h("span", { class: "took", role: "columnheader" }, "Took"), this.axis));
    this.list.element.addEventListener("click", (event) => this.clicked(event));
    this.list.element.addEventListener("focus", () => this.list.active < 0 && this.activate(this.list.range[0]));
    this.session = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Session", onchange: () => go(address(["waterfall"], { session: this.session.value }), { replace: true }) }, h("option", { value: "" }, "All sessions")));
    this.zoomButton = keyButton("Zoom to the row", "z", () => this.zoomIn());
    this.allButton = keyButton("All of the time", "a", () => this.setZoom(null));
    this.status = h("p", { class: "list-status", role: "status" });
    this.replaceChildren(h("h2", { class: "visually-hidden" }, "Waterfall"),
      h("div", { class: "bar" }, this.session, this.zoomButton, this.allButton), this.status, this.list.element);
    const onkey = (/** @type {KeyboardEvent} */ event) => this.key(event);
    const onaddress = () => this.apply();
    document.addEventListener("keydown", onkey);
    router.addEventListener("change", onaddress);
    this.ends = [
      () => document.removeEventListener("keydown", onkey), () => router.removeEventListener("change", onaddress),
      () => clearTimeout(this.timer), () => this.list.resized.disconnect(), live.on("messages", () => this.later()),
    ];
    this.filter = "?";
    this.apply();
  }

  disconnectedCallback() {
    this.isOver = true;
    for (const end of this.ends ?? []) end();
  }

  apply() {
    if (pathParts()[0] !== "waterfall") return;
    const filter = JSON.stringify([params().get("recording"), params().get("session")]);
    if (filter === this.filter) return;
    this.filter = filter;
    this.blocks.clear();
    this.zoom = null;
    this.list.active = -1;
    this.list.setTotal(0);
    this.fetch(0);
    this.loadSessions();
  }

  async loadSessions() {
    const chosen = params().get("session") ?? "";
    const { sessions } = await get("/api/names", { recording: params().get("recording") ?? "" }).catch(() => ({ sessions: [] }));
    const all = chosen && !sessions.includes(chosen) ? [chosen, ...sessions] : sessions;
    fill(this.session, h("option", { value: "" }, "All sessions"), all.map((/** @type {string} */ id) => h("option", { value: id }, shortSession(id))));
    this.session.value = chosen;
  }

  /** Fetch what is visible again, soon: there are more messages. */
  later() {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      const shown = this.wanted();
      for (const block of this.blocks.keys()) if (!shown.includes(block)) this.blocks.delete(block);
      for (const block of shown) this.fetch(block);
      if (this.session.options.length === 1) this.loadSessions();
    }, AGAIN_MS);
  }

  /** The blocks of the visible rows. */
  wanted() {
    const [first, last] = this.list.range;
    const blocks = [];
    for (let block = Math.floor(first / BLOCK); block * BLOCK < Math.max(last, first + 1); block++) blocks.push(block);
    return blocks;
  }

  /** @param {number} block */
  async fetch(block) {
    if (this.running.has(block)) return;
    this.running.add(block);
    const { filter } = this;
    try {
      const found = await get("/api/waterfall", { recording: params().get("recording") ?? "", session: params().get("session") ?? "", from: String(block * BLOCK), count: BLOCK });
      if (filter !== this.filter || this.isOver) return;
      this.blocks.delete(block);
      this.blocks.set(block, found.rows);
      for (const old of this.blocks.keys()) if (this.blocks.size > MAX_BLOCKS && old !== block) this.blocks.delete(old);
      this.span = { start: found.start, end: Math.max(found.end, found.start + 1e-6) };
      this.status.className = "list-status";
      this.say(`${count(found.requests)} request${found.requests === 1 ? "" : "s"}${found.complete ? "" : " so far"}`);
      if (found.total !== this.list.total) this.list.setTotal(found.total);
      this.drawAxis();
      this.list.refresh();
      if (!found.complete) this.later();
    } catch (error) {
      this.status.className = "list-status bad";
      this.say(/** @type {Error} */ (error).message);
    } finally {
      this.running.delete(block);
    }
  }

  /** @param {string} text */
  say(text) {
    if (this.status.textContent !== text) fill(this.status, text);
  }

  /** @param {number} position */
  at(position) {
    return this.blocks.get(Math.floor(position / BLOCK))?.[position % BLOCK];
  }

  drawAxis() {
    const { start, end } = this.zoom ?? this.span;
    const texts = [...Array(TICKS).keys()].map((at) => duration(start - this.span.start + (at / TICKS) * (end - start)));
    if (this.axis.dataset.texts === String(texts)) return;
    this.axis.dataset.texts = String(texts);
    fill(this.axis, texts.map((text) => h("span", null, text)));
    /** @type {any} */ (this.allButton).disabled = this.zoom === null;
  }

  /** @param {HTMLElement} element @param {number} position */
  render(element, position) {
    const row = this.at(position);
    const [name, took, track] = /** @type {any} */ (element.children);
    element.id = `fall-${position}`;
    element.className = "fall-row";
    element.classList.toggle("active", position === this.list.active);
    element.setAttribute("aria-selected", String(position === this.list.active));
    if (!row) {
      fill(name, "…");
      fill(took);
      fill(track);
      return;
    }
    const isGroup = row.group !== undefined;
    element.classList.add(isGroup ? "group" : `depth-${row.depth}`, row.error ? "error" : "fine");
    const seconds = isGroup ? row.end - row.ts : row.seconds;
    if (isGroup) fill(name, h("b", { class: row.group ? `session lane-${laneOf(row.group)}` : "" }, row.group ? `Session ${shortSession(row.group)}` : "Without a session"), h("span", { class: "soft" }, ` ${count(row.count)}`));
    else fill(name, h("span", { class: "soft" }, `#${shownNumber(row.n)} `), h("span", { class: "method" }, safe(row.method)), row.dir === "to_client" ? h("span", { class: "soft" }, " ← agent") : null);
    const from = row.ts - this.span.start;
    fill(took, seconds === null ? h("span", { class: "warn" }, "no response") : duration(seconds), row.error ? h("span", { class: "bad" }, " ✖") : null);
    took.title = `from ${duration(from)}${seconds === null ? "" : ` to ${duration(from + seconds)}`}`;
    fill(track, this.bar(row.ts, seconds === null ? this.span.end : row.ts + seconds, seconds === null));
  }

  /** @param {number} from @param {number} to @param {boolean} isOpen */
  bar(from, to, isOpen) {
    const { start, end } = this.zoom ?? this.span;
    const place = (/** @type {number} */ time) => Math.min(Math.max((time - start) / (end - start), 0), 1);
    if (to < start || from > end) return null;
    const bar = h("i", { class: ["fall-bar", isOpen && "open"], "aria-hidden": "true" });
    bar.style.insetInlineStart = `${100 * place(from)}%`;
    bar.style.width = `${100 * (place(to) - place(from))}%`;
    return bar;
  }

  rendered() {
    for (const block of this.wanted()) if (!this.blocks.has(block) && block * BLOCK < this.list.total) this.fetch(block);
    const element = this.list.elementAt(this.list.active);
    if (element) this.list.element.setAttribute("aria-activedescendant", element.id);
    else this.list.element.removeAttribute("aria-activedescendant");
  }

  /** @param {Event} event */
  clicked(event) {
    const row = /** @type {HTMLElement} */ (event.target).closest("[data-position]");
    if (!(row instanceof HTMLElement)) return;
    this.activate(Number(row.dataset.position));
    this.open();
  }

  /** @param {number} position */
  activate(position) {
    if (!this.list.total) return;
    this.list.active = Math.min(Math.max(0, position), this.list.total - 1);
    this.list.show(this.list.active);
    this.list.refresh();
  }

  /** Open the message of the active row; of a heading, show its time. */
  open() {
    const row = this.at(this.list.active);
    if (row?.n !== undefined) go(messageAddress(row.n));
    else if (row) this.zoomIn();
  }

  /** Show the time of the active row, and a little of what is around it. */
  zoomIn() {
    const row = this.at(Math.max(this.list.active, 0));
    if (!row) return;
    const end = row.group !== undefined ? row.end : row.seconds === null ? this.span.end : row.ts + row.seconds;
    const around = Math.max((end - row.ts) / 20, 1e-6);
    this.setZoom({ start: row.ts - around, end: end + around });
  }

  /** @param {{start: number, end: number} | null} zoom */
  setZoom(zoom) {
    this.zoom = zoom;
    this.drawAxis();
    this.list.refresh();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!isShortcut(event)) return;
    const { list } = this;
    const page = Math.max(1, Math.floor(list.height / ROW) - 1);
    /** @type {Record<string, () => void>} */
    const anywhere = { z: () => this.zoomIn(), a: () => this.setZoom(null), j: () => this.activate(list.active + 1), k: () => this.activate(list.active - 1) };
    /** @type {Record<string, () => void>} */
    const inList = {
      ArrowDown: anywhere.j, ArrowUp: anywhere.k, PageDown: () => this.activate(list.active + page), PageUp: () => this.activate(list.active - page),
      Home: () => this.activate(0), End: () => this.activate(list.total - 1), Enter: () => this.open(), Escape: () => this.setZoom(null),
    };
    const action = anywhere[event.key] ?? (document.activeElement === list.element ? inList[event.key] : undefined);
    if (!action) return;
    event.preventDefault();
    action();
  }
}

function createRow() {
  return h("div", { class: "fall-row", role: "row" }, h("span", { class: "name", role: "gridcell" }), h("span", { class: "took", role: "gridcell" }), h("span", { class: "track", role: "gridcell" }));
}

customElements.define("view-waterfall", WaterfallView);
