// The head of a session: title, state, usage, options, and what closes or copies it.

import { act, opened } from "./conversation_store.js";
import { count, fill, h } from "./dom.js";

export class SessionHead {
  /** @param {string} session */
  constructor(session) {
    this.session = session;
    this.title = h("h3", { class: "title" }, "Session");
    this.state = h("span", { class: "badge status" });
    this.place = h("span", { class: "soft place" });
    this.usage = h("div", { class: "usage" });
    this.options = h("div", { class: "options", role: "group", "aria-label": "Options of the session" });
    this.buttons = h("div", { class: "buttons" });
    this.problem = h("p", { class: "bad", role: "alert" });
    this.element = h("header", { class: "session-head" },
      h("div", { class: "line" }, this.title, this.state, this.place, this.buttons),
      h("div", { class: "line" }, this.options, this.usage), this.problem);
  }

  /** @param {boolean} isOpen @param {any} client */
  setClient(isOpen, client) {
    this.isOpen = isOpen;
    const supports = client?.agent?.supports ?? [];
    const key = `${isOpen} ${supports}`;
    if (key === this.clientKey) return;
    this.clientKey = key;
    this.optionsKey = "";
    fill(this.buttons,
      isOpen && supports.includes("fork_session") ? button("Fork", () => this.fork()) : null,
      isOpen && supports.includes("close_session") ? button("Close", () => this.attempt("close")) : null);
  }

  /** @param {any} state @param {boolean} isLive @param {boolean} isOpened whether it ever was, on this connection */
  update(state, isLive, isOpened) {
    fill(this.title, state.title ?? state.label);
    this.title.title = state.title ?? state.label;
    const name = !isOpened ? "not opened on this connection" : state.closed || !isLive ? "closed" : state.running ? state.state?.state ?? "running" : "idle";
    fill(this.state, name.replaceAll("_", " "));
    fill(this.place, state.cwd ?? "");
    this.showUsage(state.usage);
    this.showOptions(state);
  }

  /** @param {any} usage */
  showUsage(usage) {
    this.usage.hidden = !usage;
    if (!usage) return;
    const share = usage.size > 0 ? Math.round((100 * usage.used) / usage.size) : 0;
    const cost = usage.cost === null ? "" : ` · ${usage.cost.toLocaleString("en-US", { maximumFractionDigits: 4, minimumFractionDigits: 2 })} ${usage.currency}`;
    const label = `Context: ${count(usage.used)} of ${count(usage.size)} tokens (${share} %)`;
    fill(this.usage, h("meter", { min: "0", max: "100", high: "80", optimum: "0", value: share, "aria-label": label, title: label }),
      h("span", { class: "soft" }, `${share} % of ${count(usage.size)} tokens${cost}`));
  }

  /** @param {any} state */
  showOptions(state) {
    const key = JSON.stringify([state.options, state.mode, this.isOpen]);
    if (key === this.optionsKey) return;
    this.optionsKey = key;
    const active = /** @type {HTMLElement | null} */ (document.activeElement)?.id;
    const shown = state.options.map((/** @type {any} */ option, /** @type {number} */ at) => this.optionElement(option, `option-${at}`));
    const hasMode = state.options.some((/** @type {any} */ option) => option.category === "mode");
    fill(this.options, shown, state.mode && !hasMode ? h("span", { class: "soft" }, `Mode: ${state.mode}`) : null);
    if (active?.startsWith("option-")) document.getElementById(active)?.focus();
  }

  /** @param {any} option @param {string} id */
  optionElement(option, id) {
    const set = (/** @type {string | boolean} */ value) => this.attempt("option", { option: option.id, value });
    const label = h("label", { for: id, title: option.description }, option.name);
    if (option.type === "switch") {
      return h("span", { class: "option" }, h("input", {
        id, type: "checkbox", checked: option.value, disabled: !this.isOpen,
        onchange: (/** @type {any} */ event) => set(event.target.checked),
      }), label);
    }
    const groups = new Map();
    for (const choice of option.choices) groups.set(choice.group, [...(groups.get(choice.group) ?? []), choice]);
    const items = [...groups].map(([group, choices]) => {
      const options = choices.map((/** @type {any} */ choice) =>
        h("option", { value: choice.value, selected: choice.value === option.value, title: choice.description }, choice.name));
      return group === null ? options : h("optgroup", { label: group }, options);
    });
    const isKnown = option.choices.some((/** @type {any} */ choice) => choice.value === option.value);
    return h("span", { class: "option" }, label, h("select", {
      id, disabled: !this.isOpen, onchange: (/** @type {any} */ event) => set(event.target.value),
    }, items, isKnown ? null : h("option", { value: option.value, selected: true }, option.value)));
  }

  /** @param {string} action @param {Record<string, any>} [body] */
  async attempt(action, body = {}) {
    fill(this.problem);
    try {
      return await act(action, { session: this.session, ...body });
    } catch (error) {
      fill(this.problem, error.message);
      this.optionsKey = ""; // show the value that applies
      return undefined;
    }
  }

  async fork() {
    const before = document.activeElement;
    const session = await this.attempt("fork");
    if (session !== undefined) opened(this.element, session, before);
  }
}

/** @param {string} text @param {() => void} onclick */
function button(text, onclick) {
  return h("button", { type: "button", onclick }, text);
}
