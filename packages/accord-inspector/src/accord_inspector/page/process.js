// The view "Process": the agent's command, environment, memory, processor and stderr.

import { get, live } from "./api.js";
import { duration, fill, h, safe, size } from "./dom.js";
import { drawCharts, line } from "./statistics_chart.js";

const MAX_LINES = 2000;

class ProcessView extends HTMLElement {
  constructor() {
    super();
    this.facts = h("dl", { class: "facts" });
    this.environment = h("details", null);
    this.charts = h("div", { class: "charts" });
    this.stderr = h("div", { class: "stderr scroll", tabindex: "0", role: "log", "aria-label": "stderr" });
    this.trouble = h("p", { class: "bad" });
    this.problem = h("p", { class: "bad", role: "alert" });
    /** @type {any[]} */
    this.samples = [];
    /** @type {(() => void)[]} */
    this.ends = [];
  }

  connectedCallback() {
    this.replaceChildren(h("h2", null, "Process"), this.trouble, this.problem, this.facts, this.charts, this.environment,
      h("h3", null, "stderr"), this.stderr);
    this.ends = [
      live.on("state:process", () => this.changed()),
      live.on("event:stderr", (item) => this.add([item])),
      live.on("event:resources", (sample) => { this.samples.push(sample); this.draw(); }),
    ];
    this.load();
  }

  disconnectedCallback() {
    for (const end of this.ends) end();
  }

  /** Load all of it, unless only the count of strange lines has changed. */
  changed() {
    this.showTrouble();
    const key = JSON.stringify({ ...live.state.process, trouble: null });
    if (key !== this.key) this.load();
    this.key = key;
  }

  showTrouble() {
    const { trouble } = live.state.process ?? {};
    fill(this.trouble, safe([trouble?.text, trouble?.lines].filter(Boolean).join(". ")));
  }

  async load() {
    try {
      const details = await get("/api/process");
      this.showTrouble();
      fill(this.problem);
      fill(this.facts, facts(details).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, h("code", null, safe(value))))));
      const names = Object.entries(details.environment);
      this.environment.hidden = !names.length;
      fill(this.environment, h("summary", null, `Environment: ${names.length} variables`),
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Environment" }, h("table", null,
          h("thead", null, h("tr", null, h("th", { scope: "col" }, "Name"), h("th", { scope: "col" }, "Value"))),
          h("tbody", null, names.map(([name, value]) => h("tr", null, h("th", { scope: "row" }, safe(name)), h("td", null, h("code", null, safe(String(value))))))))));
      this.samples = details.samples;
      this.draw();
      fill(this.stderr);
      this.add(details.stderr);
    } catch (error) {
      fill(this.problem, safe(/** @type {Error} */ (error).message));
    }
  }

  draw() {
    if (!this.samples.length) {
      fill(this.charts, h("p", { class: "soft" }, "No measurements of this process."));
      return;
    }
    const open = [...this.charts.querySelectorAll("details")].map((one) => one.open);
    const time = { xName: "Time", along: duration };
    drawCharts(this.charts, [
      () => line({ title: "Memory", points: this.samples.map((one) => [one.at, one.memory]), shown: size, ...time }),
      () => line({ title: "Processor (% of one)", points: this.samples.map((one) => [one.at, one.cpu]), shown: (y) => `${Math.round(y)} %`, ...time }),
    ]);
    this.charts.querySelectorAll("details").forEach((one, place) => { one.open = open[place] ?? false; });
  }

  /** @param {{at: number, text: string}[]} lines */
  add(lines) {
    const isAtEnd = this.stderr.scrollTop + this.stderr.clientHeight >= this.stderr.scrollHeight - 4;
    if (lines.length) this.stderr.querySelector(".soft.empty")?.remove();
    for (const { at, text } of lines) {
      this.stderr.append(h("div", { class: "line" }, h("span", { class: "soft" }, `${at.toFixed(3)} `), h("span", null, safe(text))));
    }
    while (this.stderr.childElementCount > MAX_LINES) this.stderr.firstElementChild?.remove();
    if (!this.stderr.childElementCount) this.stderr.append(h("p", { class: "soft empty" }, "The agent has written nothing to stderr."));
    if (isAtEnd) this.stderr.scrollTop = this.stderr.scrollHeight;
  }
}

/** @param {any} details @returns {string[][]} */
function facts(details) {
  const rows = [
    ["Command", details.command.join(" ")],
    ["State", details.state],
    ["PID", details.pid === null ? "" : String(details.pid)],
    ["Started", details.startedAt ? new Date(details.startedAt * 1000).toLocaleTimeString("en-GB") : ""],
    ["Starts", String(details.starts ?? "")],
    ["Exit status", details.exitStatus === null || details.exitStatus === undefined ? "" : String(details.exitStatus)],
    ["Protocol", details.version ? `version ${details.version}` : ""],
  ];
  return rows.filter(([, value]) => value !== "");
}

customElements.define("view-process", ProcessView);
