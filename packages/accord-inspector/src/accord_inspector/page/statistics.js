// The view "Statistics": turns, latencies, tokens and cost, as charts and tables.

import { get, live } from "./api.js";
import { count, duration, fill, h, safe, size } from "./dom.js";
import { params, router } from "./router.js";
import { bars, chartsElement, line } from "./statistics_chart.js";

const AGAIN_MS = 1000;
const TOKENS = { cachedRead: "read from cache", cachedWrite: "written to cache", thought: "thoughts" };

class StatisticsView extends HTMLElement {
  constructor() {
    super();
    this.body = h("div", { class: "statistics" });
    this.status = h("p", { class: "soft", role: "status" });
    this.shown = -1;
    this.timer = 0;
    /** @type {(() => void)[]} */
    this.ends = [];
  }

  connectedCallback() {
    this.replaceChildren(h("h2", null, "Statistics"), this.status, this.body);
    this.isConnectedNow = true;
    const again = () => { this.shown = -1; this.load(); };
    router.addEventListener("change", again);
    live.watch({}, { recording: params().get("recording") ?? "" });
    this.ends = [() => router.removeEventListener("change", again), live.on("messages", () => this.loadSoon())];
    this.load();
  }

  disconnectedCallback() {
    this.isConnectedNow = false;
    for (const end of this.ends) end();
    clearTimeout(this.timer);
    this.timer = 0;
  }

  loadSoon() {
    if (!this.timer) this.timer = setTimeout(() => { this.timer = 0; this.load(); }, AGAIN_MS);
  }

  async load() {
    try {
      const stats = await get("/api/statistics", { recording: params().get("recording") ?? "" });
      if (!this.isConnectedNow) return;
      fill(this.status, stats.complete ? "" : `Counting: ${count(stats.read)} of ${count(stats.total)} messages`);
      if (!stats.complete) this.loadSoon();
      if (stats.read === this.shown) return;
      this.shown = stats.read;
      // A table that is open stays so.
      const open = new Set([...this.body.querySelectorAll("details[open]")].map((one) => one.parentElement?.firstElementChild?.textContent));
      fill(this.body, ...content(stats));
      for (const one of this.body.querySelectorAll("details")) {
        /** @type {any} */ (one).open = open.has(one.parentElement?.firstElementChild?.textContent);
      }
    } catch (error) {
      fill(this.status, safe(/** @type {Error} */ (error).message));
    }
  }
}

/** @param {any} stats */
function content(stats) {
  const ended = stats.turns.filter((/** @type {any} */ turn) => turn.seconds !== null);
  const first = stats.turns_count - stats.turns.length + 1;
  const number = (/** @type {any} */ turn) => first + stats.turns.indexOf(turn);
  const turn = { xName: "Turn", along: (/** @type {number} */ x) => `turn ${x}` };
  const time = { xName: "Time", along: duration };
  const tokens = ended.filter((/** @type {any} */ one) => Object.keys(one.tokens).length);
  /** @type {(() => Element)[]} */
  const charts = [];
  if (ended.length) charts.push(() => bars({ title: "Time of each turn", points: ended.map((/** @type {any} */ one) => [number(one), one.seconds]), shown: duration, ...turn }));
  const begun = stats.turns.filter((/** @type {any} */ one) => one.first_update_s !== null);
  if (begun.length) charts.push(() => bars({ title: "Time to the first update", points: begun.map((/** @type {any} */ one) => [number(one), one.first_update_s]), shown: duration, ...turn }));
  if (tokens.length) charts.push(() => bars({ title: "Tokens of each turn", points: tokens.map((/** @type {any} */ one) => [number(one), total(one.tokens)]), shown: whole, ...turn }));
  if (stats.context.length) {
    charts.push(() => line({ title: "Context fill (%)", points: stats.context.map((/** @type {any} */ one) => [one.ts, (100 * one.used) / Math.max(one.size, 1)]), shown: percent, ...time }));
    const costs = stats.context.filter((/** @type {any} */ one) => one.cost !== null);
    if (costs.length) charts.push(() => line({ title: `Cost so far (${safe(costs[0].currency)})`, points: costs.map((/** @type {any} */ one) => [one.ts, one.cost]), shown: (y) => y.toPrecision(3), ...time }));
  }
  if (stats.rate.length) charts.push(() => line({ title: "Updates per second", points: stats.rate, shown: (y) => String(Math.round(y * 10) / 10), ...time }));
  return [summary(stats), charts.length ? chartsElement(charts) : null, methods(stats), toolCalls(stats)];
}

/** @param {any} stats */
function summary(stats) {
  const rows = [
    ["Messages", count(stats.messages)],
    ["Not messages", count(stats.invalid)],
    ["Time", duration(stats.seconds)],
    ["Sessions", count(stats.sessions.length)],
    ["Turns", count(stats.turns_count)],
    ["To the agent", size(stats.bytes_to_agent)],
    ["To the client", size(stats.bytes_to_client)],
    ...Object.entries(stats.tokens).map(([name, value]) => [`Tokens, ${TOKENS[/** @type {"total"} */ (name)] ?? safe(name)}`, count(/** @type {number} */ (value))]),
    ...Object.entries(stats.costs).map(([name, value]) => [`Cost, ${safe(name)}`, Number(value).toPrecision(4)]),
  ];
  return h("dl", { class: "facts" }, rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** @param {any} stats */
function methods(stats) {
  const rows = stats.methods.map((/** @type {any} */ one) => [
    one.method, one.direction === "to_agent" ? "agent" : "client", count(one.count), count(one.errors), count(one.unanswered), size(one.bytes),
    ...(one.latency ? [duration(one.latency.median_s), duration(one.latency.p95_s), duration(one.latency.max_s)] : ["", "", ""]),
  ]);
  return table("Methods", ["Method", "To", "Count", "Errors", "Unanswered", "Bytes", "Median", "95 %", "Max"], rows);
}

/** @param {any} stats */
function toolCalls(stats) {
  if (!stats.tool_calls.length) return null;
  const rows = stats.tool_calls.map((/** @type {any} */ one) => [one.title || one.id, one.kind, one.status, one.seconds === null ? "" : duration(one.seconds)]);
  return table("Tool calls", ["Tool call", "Kind", "Status", "Time"], rows);
}

/** @param {string} title @param {string[]} names @param {string[][]} rows */
function table(title, names, rows) {
  const head = h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name))));
  const body = rows.map(([first, ...rest]) =>
    h("tr", null, h("th", { scope: "row" }, safe(first)), rest.map((cell) => h("td", { class: /^[\d.]/.test(cell) ? "number" : "" }, safe(cell)))));
  return h("section", { "aria-label": title }, h("h3", null, title),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}: table` }, h("table", null, head, h("tbody", null, body))));
}

/** @param {Record<string, number>} tokens */
function total(tokens) {
  return tokens.total ?? Object.values(tokens).reduce((sum, value) => sum + value, 0);
}

const whole = (/** @type {number} */ y) => count(Math.round(y));
const percent = (/** @type {number} */ y) => `${y < 1 ? Number(y.toPrecision(2)) : Math.round(y * 10) / 10} %`;

customElements.define("view-statistics", StatisticsView);
