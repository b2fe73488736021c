// The cells of one message in the list.

import { duration, fill, h, safe, size } from "./dom.js";
import { textNodes } from "./message-text.js";
import { shownNumber } from "./router.js";

/** @typedef {import("./timeline-rows.js").Row} Row */

/** What a kind of message is called in a narrow column. */
export const KINDS = {
  request: "request",
  response: "response",
  notification: "notification",
  invalid: "not a message",
  end: "end",
};
const SHORT = { request: "req", response: "res", notification: "note", invalid: "raw", end: "end" };

/** The columns: class, heading. */
export const COLUMNS = [
  ["n", "#"],
  ["ts", "Time"],
  ["way", "From, to"],
  ["session", "Session"],
  ["method", "Method"],
  ["summary", "Content"],
  ["bytes", "Size"],
  ["latency", "Latency"],
  ["marks", "Marks"],
];

const SORTED = { way: "way", session: "session", method: "method", bytes: "-bytes", latency: "-latency" };

/** Return the row of headings; `onsort` gets the order that a heading asks for. @param {(sort: string) => void} onsort */
export function createHeader(onsort) {
  const cells = COLUMNS.map(([name, title]) => {
    const order = SORTED[/** @type {"way"} */ (name)];
    if (!order && name !== "n") return h("span", { class: name, role: "columnheader" }, title);
    const button = h("button", { type: "button", onclick: () => onsort(nextSort(cell.dataset.sort ?? "", order ?? "")) }, title);
    const cell = h("span", { class: name, role: "columnheader" }, button);
    return cell;
  });
  return h("div", { class: "message-row heading", role: "row", "aria-rowindex": "1" }, cells);
}

/** Return the next order of a column: its own, the other way round, none. @param {string} now @param {string} order */
function nextSort(now, order) {
  const reverse = order.startsWith("-") ? order.slice(1) : `-${order}`;
  return now === order ? reverse : now === reverse ? "" : order;
}

/** Show by which column the list is sorted. @param {HTMLElement} header @param {string} sort */
export function showSort(header, sort) {
  for (const cell of /** @type {Iterable<HTMLElement>} */ (header.children)) {
    const isSorted = sort ? cell.classList.contains(sort.replace("-", "")) : cell.classList.contains("n");
    if (!cell.firstElementChild) continue;
    cell.dataset.sort = isSorted ? sort : "";
    if (isSorted) cell.setAttribute("aria-sort", sort.startsWith("-") ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
}

/** Return an empty row. */
export function createRow() {
  const cells = COLUMNS.map(([name]) => h("span", { class: name, role: "gridcell" }));
  return h("div", { class: "message-row", role: "row" }, cells);
}

/** Fill a row. @param {HTMLElement} element @param {Row | undefined} row @param {RegExp | null} [finder] what is marked in it */
export function fillRow(element, row, finder = null) {
  const [n, ts, way, session, method, summary, bytes, latency, marks] = /** @type {any} */ (element.children);
  element.className = row ? `message-row ${row.kind} ${row.dir}` : "message-row loading";
  element.classList.toggle("error", Boolean(row?.error));
  n.textContent = row ? String(shownNumber(row.n)) : "…";
  ts.textContent = row ? row.ts.toFixed(3) : "";
  way.textContent = row ? wayOf(row) : "";
  session.className = row?.session ? `session lane-${laneOf(row.session)}` : "session";
  session.textContent = row?.session ? shortSession(row.session) : "";
  session.title = row?.session ? safe(row.session) : "";
  fill(method,
    h("span", { class: "kind", title: KINDS[row?.kind ?? ""] ?? null }, row ? (SHORT[row.kind] ?? "") : ""),
    row && [" ", textNodes(safe(row.method ?? ""), finder)],
  );
  summary.classList.toggle("matched", Boolean(row?.match));
  if (row?.match) summary.replaceChildren(...matchNodes(row.match));
  else summary.textContent = row ? safe(row.summary ?? "") : "";
  bytes.textContent = row?.bytes ? size(row.bytes) : "";
  latency.textContent = row ? latencyOf(row) : "";
  marks.replaceChildren(...(row ? marksOf(row) : []));
}

/** Return where a message has the text of the filter. @param {string[]} match */
function matchNodes([before, found, after]) {
  return [h("span", { class: "before" }, h("span", null, safe(before))), h("mark", { class: "match" }, safe(found)), h("span", { class: "after" }, safe(after))];
}

/** Return who sent a message to whom. @param {Row} row */
export function wayOf(row) {
  return row.dir === "to_agent" ? `${safe(row.from)} → ${safe(row.to)}` : `${safe(row.to)} ← ${safe(row.from)}`;
}

/** @param {Row} row */
function latencyOf(row) {
  if (typeof row.seconds === "number") return duration(row.seconds);
  return "";
}

const SOON_S = 2; // a request that waits for less is not marked

/** Return what a request without a response says. @param {Row} row */
function waitingOf(row) {
  if (row.waits === undefined) return null;
  if (row.waits === null) return h("span", { class: "mark bad" }, "✖ never answered");
  const seconds = row.waits + (performance.now() - (row.seen ?? 0)) / 1000;
  if (seconds < SOON_S) return null;
  return h("span", { class: "mark warn" }, `no response yet: ${Math.floor(seconds)} s`);
}

/** Return the marks of a message: errors, and broken rules. @param {Row} row */
export function marksOf(row) {
  const found = [];
  if (row.error) found.push(h("span", { class: "mark bad" }, row.kind === "invalid" ? "✖ invalid" : "✖ error"));
  if (row.fault) found.push(h("span", { class: "mark warn", title: "A fault of the inspector" }, `↯ ${row.fault}`));
  found.push(...[waitingOf(row)].filter((mark) => mark !== null));
  const rules = row.rules ?? [];
  if (rules.length) {
    const more = rules.length > 1 ? ` +${rules.length - 1}` : "";
    const level = row.severity === "error" ? "bad" : "warn";
    found.push(h("span", { class: `mark ${level}`, title: `Broken: ${rules.join(", ")}` }, `⚠ ${rules[0]}${more}`));
  }
  return found;
}

/** Return the number of the colour of a session, from 0 to 7. @param {string} session */
export function laneOf(session) {
  let sum = 0;
  for (let at = 0; at < session.length; at++) sum = (sum * 31 + session.charCodeAt(at)) >>> 0;
  return sum % 8;
}

/** Return the end of a session's id, which differs most. @param {string} session */
export function shortSession(session) {
  const shown = [...safe(session)];
  return shown.length > 10 ? `…${shown.slice(-8).join("")}` : shown.join("");
}
