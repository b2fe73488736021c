// The timeline as a sequence diagram: a column per component, an arrow per message.

import { fill, h, safe } from "./dom.js";
import { shownNumber } from "./router.js";
import { laneOf, marksOf } from "./timeline-row.js";

const MAX_TRACKS = 6; // sessions with a line of their own at the left

/** Places components in columns, and sessions in tracks. */
export class Sequence {
  constructor() {
    /** @type {string[]} */
    this.components = ["Client", "Agent"];
    /** @type {string[]} */
    this.sessions = [];
    this.heads = h("div", { class: "sequence-heads", role: "row", "aria-rowindex": "1" });
    this.draw();
  }

  /**
   * Set the names; return whether they have changed.
   * @param {string[]} components @param {string[]} sessions
   */
  set(components, sessions) {
    const ordered = orderOf(components);
    const tracks = sessions.slice(0, MAX_TRACKS);
    if (String(ordered) === String(this.components) && String(tracks) === String(this.sessions)) return false;
    this.components = ordered;
    this.sessions = tracks;
    this.draw();
    return true;
  }

  draw() {
    this.style(this.heads);
    fill(
      this.heads,
      h("span", { class: "gutter", role: "columnheader" }, "Time"),
      this.components.map((name) => h("span", { class: ["component", kindOf(name)], role: "columnheader" }, safe(name))),
    );
  }

  /** Tell an element how many columns and tracks there are. @param {HTMLElement} element */
  style(element) {
    element.style.setProperty("--columns", String(this.components.length));
    element.style.setProperty("--tracks", String(this.sessions.length));
  }

  /** Return an empty row. */
  createRow() {
    return h(
      "div",
      { class: "sequence-row", role: "row" },
      h("span", { class: "gutter", role: "gridcell" }, h("span", { class: "tracks" }), h("span", { class: "ts" })),
      h("span", { class: "arrow", role: "gridcell" }, h("span", { class: "label" }), h("span", { class: "marks" })),
    );
  }

  /** @param {HTMLElement} element @param {import("./timeline-rows.js").Row | undefined} row */
  fillRow(element, row) {
    const [gutter, arrow] = /** @type {any} */ (element.children);
    const [tracks, ts] = gutter.children;
    const [label, marks] = arrow.children;
    this.style(element);
    element.className = row ? "sequence-row" : "sequence-row loading";
    arrow.className = "arrow";
    if (!row) {
      ts.textContent = label.textContent = "";
      tracks.replaceChildren();
      marks.replaceChildren();
      return;
    }
    element.classList.add(row.kind);
    element.classList.toggle("error", Boolean(row.error));
    ts.textContent = row.ts.toFixed(3);
    ts.title = `#${shownNumber(row.n)}`;
    fill(tracks, this.sessions.map((id) => h("i", { class: [`lane-${laneOf(id)}`, id === row.session && "here"] })));
    const from = Math.max(0, this.components.indexOf(row.from));
    const to = Math.max(0, this.components.indexOf(row.to));
    const isRight = to >= from;
    // Column 1 is the gutter; an arrow reaches from the middle of one column to that of another.
    arrow.style.gridColumn = `${Math.min(from, to) + 2} / ${Math.max(from, to) + 3}`;
    arrow.style.setProperty("--span", String(Math.abs(to - from) + 1));
    arrow.classList.add(isRight ? "right" : "left");
    if (from === to) arrow.classList.add("self");
    if (row.session) arrow.classList.add(`lane-${laneOf(row.session)}`);
    const what = row.kind === "response" ? `↩ ${row.method ?? ""}` : row.method || row.kind;
    label.textContent = `${safe(what)} ${safe(row.summary ?? "")}`.slice(0, 300);
    marks.replaceChildren(...marksOf(row));
  }
}

/** Order components as they are in a chain. @param {string[]} names */
function orderOf(names) {
  const rank = (/** @type {string} */ name) => {
    if (name === "Client") return -1;
    if (name === "Agent") return 1e6;
    const number = /^Proxy\((\d+)\)$/.exec(name);
    return number ? Number(number[1]) : 1e5;
  };
  const all = names.length ? names : ["Client", "Agent"];
  return [...all].sort((one, other) => rank(one) - rank(other));
}

/** @param {string} name */
function kindOf(name) {
  return name === "Client" ? "client" : name === "Agent" ? "agent" : "proxy";
}
