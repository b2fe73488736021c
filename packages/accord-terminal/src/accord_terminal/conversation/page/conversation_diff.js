// Diffs: the old and the new text side by side on wide screens, below each other on others.

import { count, fill, h } from "./dom.js";

/** @typedef {[sign: string, before: number | null, after: number | null, text: string]} Line of a diff (`shown.py`) */

const SIGNS = { "+": "added", "-": "removed", " ": "same" };
const CHANGES = { new: "new file", deleted: "deleted file", changed: "" };
const wide = matchMedia("(min-width: 1500px)");

/** @param {any} diff */
export function diffElement(diff) {
  const paths = [diff.path, ...diff.others].join(", ");
  const table = /** @type {DiffTable} */ (h("diff-table", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Changes of ${paths}` }));
  table.rows = diff.rows;
  return h("figure", { class: "diff" },
    h("figcaption", null, h("code", null, paths), " ",
      h("span", { class: "soft" }, CHANGES[/** @type {"new"} */ (diff.change)] ?? ""),
      diff.added ? h("span", { class: "good" }, ` +${diff.added}`) : null,
      diff.removed ? h("span", { class: "bad" }, ` −${diff.removed}`) : null),
    table,
    diff.left ? h("p", { class: "soft" }, `… ${count(diff.left)} more lines: see the message`) : null);
}

/** The lines of a diff; the screen decides how they are shown. */
class DiffTable extends HTMLElement {
  constructor() {
    super();
    /** @type {Line[]} */
    this.rows = [];
    this.changed = () => this.draw();
  }

  connectedCallback() {
    wide.addEventListener("change", this.changed);
    this.draw();
  }

  disconnectedCallback() {
    wide.removeEventListener("change", this.changed);
  }

  draw() {
    // A new or deleted file has one side only.
    const hasBoth = this.rows.some(([sign]) => sign === "-") && this.rows.some(([sign]) => sign === "+");
    const isSplit = wide.matches && hasBoth;
    this.classList.toggle("split", isSplit);
    const heads = isSplit ? ["Old line", "Old text", "New line", "New text"] : ["Old line", "New line", "Text"];
    fill(this, h("table", null,
      h("thead", { class: "visually-hidden" }, h("tr", null, heads.map((text) => h("th", null, text)))),
      h("tbody", null, isSplit ? splitRows(this.rows) : this.rows.map(inlineRow))));
  }
}

/** @param {Line} line */
function inlineRow([sign, before, after, text]) {
  if (isGap(sign)) return gap(sign, text, 3);
  return h("tr", { class: SIGNS[/** @type {"+"} */ (sign)] },
    h("td", { class: "line" }, before ?? ""), h("td", { class: "line" }, after ?? ""), code(sign, text));
}

/** Return rows in which what was removed is beside what was added. @param {Line[]} lines */
function splitRows(lines) {
  const rows = [];
  for (let at = 0; at < lines.length;) {
    const [sign, before, after, text] = lines[at];
    if (isGap(sign) || sign === " ") {
      rows.push(isGap(sign) ? gap(sign, text, 4) : h("tr", { class: "same" }, side(before, " ", text), side(after, " ", text)));
      at++;
      continue;
    }
    const removed = [];
    const added = [];
    for (; lines[at]?.[0] === "-"; at++) removed.push(lines[at]);
    for (; lines[at]?.[0] === "+"; at++) added.push(lines[at]);
    for (let row = 0; row < Math.max(removed.length, added.length); row++) {
      const [old, next] = [removed[row], added[row]];
      rows.push(h("tr", null, old ? side(old[1], "-", old[3]) : nothing(), next ? side(next[2], "+", next[3]) : nothing()));
    }
  }
  return rows;
}

/** @param {string} sign */
const isGap = (sign) => sign === "gap" || sign === "remark";

/** @param {string} sign @param {string} text @param {number} columns */
function gap(sign, text, columns) {
  return h("tr", { class: "gap" }, h("td", { colspan: String(columns) }, sign === "gap" ? "⋯" : text));
}

/** @param {number | null} number @param {string} sign @param {string} text */
function side(number, sign, text) {
  return [h("td", { class: ["line", SIGNS[/** @type {"+"} */ (sign)]] }, number ?? ""), code(sign, text)];
}

const nothing = () => [h("td", { class: "line none" }), h("td", { class: "code none" })];

/** @param {string} sign @param {string} text */
function code(sign, text) {
  const spoken = sign === " " ? "" : `${SIGNS[/** @type {"+"} */ (sign)]}: `;
  return h("td", { class: ["code", SIGNS[/** @type {"+"} */ (sign)]] }, h("span", { class: "sign", "aria-hidden": "true" }, sign),
    h("span", { class: "visually-hidden" }, spoken), text);
}

customElements.define("diff-table", DiffTable);
