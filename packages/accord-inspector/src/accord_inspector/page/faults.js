// The view "Faults": breaks the connection on purpose, to see what the other side does.

import { live, post } from "./api.js";
import { count, fill, h, safe, size } from "./dom.js";
import { describe, FIELDS, KINDS } from "./faults_list.js";

const DIRECTIONS = [["to_client", "From the agent to the client"], ["to_agent", "From the client to the agent"]];

class FaultsView extends HTMLElement {
  constructor() {
    super();
    this.kind = KINDS[0];
    this.list = h("div", { class: "fault-list" });
    this.fields = h("div", { class: "fault-fields" });
    this.result = h("p", { class: "bad", role: "alert" });
    this.end = () => {};
  }

  connectedCallback() {
    const kinds = h("select", { id: "fault-kind", onchange: (/** @type {any} */ event) => this.choose(event.target.value) },
      KINDS.map((one) => h("option", { value: one.kind }, one.title)));
    const directions = h("select", { id: "fault-direction", name: "direction" }, DIRECTIONS.map(([value, text]) => h("option", { value }, text)));
    this.replaceChildren(
      h("h2", null, "Faults"),
      h("form", { class: "fault-form", onsubmit: (/** @type {Event} */ event) => this.add(event) },
        h("div", { class: "choices" }, labelled("Fault", kinds), labelled("Direction", directions)),
        this.fields,
        h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Switch on")),
        this.result),
      h("h3", null, "Faults so far"),
      this.list,
    );
    this.choose(this.kind.kind);
    this.end = live.on("state:faults", () => this.draw());
    this.draw();
  }

  disconnectedCallback() {
    this.end();
  }

  /** @param {string} kind */
  choose(kind) {
    this.kind = KINDS.find((one) => one.kind === kind) ?? KINDS[0];
    const direction = /** @type {any} */ (this.querySelector("#fault-direction"));
    if (direction) direction.disabled = kind === "suspend";
    fill(this.fields, h("p", { class: "soft" }, this.kind.about), this.kind.fields.map((name) => labelled(FIELDS[name].label, control(name))));
  }

  /** @param {Event} event */
  async add(event) {
    event.preventDefault();
    const form = /** @type {any} */ (event.target).elements;
    /** @type {Record<string, any>} */
    const fault = { kind: this.kind.kind, direction: form.direction.value };
    for (const name of this.kind.fields) {
      const value = form[name].value;
      fault[name] = FIELDS[name].type === "number" ? Number(value) : value;
    }
    await this.act("/api/faults", fault);
  }

  /** @param {string} path @param {any} [value] */
  async act(path, value = {}) {
    fill(this.result);
    try {
      live.received({ state: { faults: await post(path, value) } });
    } catch (error) {
      fill(this.result, safe(/** @type {Error} */ (error).message));
    }
  }

  draw() {
    const faults = live.state.faults?.faults ?? [];
    if (!faults.length) {
      fill(this.list, h("p", { class: "soft" }, "No faults yet. Messages pass as they are."));
      return;
    }
    const names = ["Fault", "Direction", "State", "Messages", "Bytes", "Actions"];
    fill(this.list, h("table", null,
      h("caption", { class: "visually-hidden" }, "Faults, and what they did"),
      h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, faults.map((/** @type {any} */ one) => this.row(one)))));
  }

  /** @param {any} active */
  row(active) {
    const { id, fault } = active;
    const name = describe(fault);
    const act = (/** @type {string} */ action) => () => this.act(`/api/faults/${id}/${action}`);
    const button = (/** @type {string} */ text, /** @type {string} */ action) =>
      h("button", { type: "button", "aria-label": `${text}: ${name}`, onclick: act(action) }, text);
    return h("tr", { class: active.is_on ? "on" : "" },
      h("th", { scope: "row" }, safe(name)),
      h("td", null, fault.kind === "suspend" ? "" : fault.direction === "to_agent" ? "to the agent" : "to the client"),
      h("td", null, active.is_on ? "on" : "off"),
      h("td", { class: "number" }, count(active.messages)),
      h("td", { class: "number" }, size(active.bytes)),
      h("td", null, active.is_on ? button("Switch off", "off") : button("Switch on", "on"), " ", button("Remove", "remove")));
  }
}

/** @param {string} name */
function control(name) {
  const { type, value, min, max, step, options } = FIELDS[name];
  if (options) return h("select", { name }, options.map(([key, text]) => h("option", { value: key }, text)));
  return h("input", { name, type, value, min, max, step, autocomplete: "off" });
}

/** @param {string} text @param {HTMLElement} inner */
function labelled(text, inner) {
  return h("label", { class: "labelled" }, h("span", null, text), inner);
}

customElements.define("view-faults", FaultsView);
