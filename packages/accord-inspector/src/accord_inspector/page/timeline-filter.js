// The filter bar: what the list shows. Its values are the query parameters of the address.

import { count, fill, h, safe } from "./dom.js";
import { shortSession } from "./timeline-row.js";

const NAMES = ["method", "session", "direction", "text", "path", "errors", "rule", "sort"];
const SORTS = [
  ["", "In order"],
  ["-latency", "Slowest first"],
  ["latency", "Fastest first"],
  ["-bytes", "Largest first"],
  ["bytes", "Smallest first"],
  ["method", "By method"],
  ["-method", "By method, from the end"],
  ["session", "By session"],
  ["-session", "By session, from the end"],
  ["way", "By sender"],
  ["-way", "By sender, from the end"],
];
const WAIT_MS = 250; // after a key, before the list changes

/** Return the filter in an address, as parameters of the API. @param {URLSearchParams} query */
export function filterOf(query) {
  /** @type {Record<string, any>} */
  const filter = {};
  for (const name of NAMES) {
    const values = query.getAll(name).filter(Boolean);
    if (values.length) filter[name] = name === "method" || name === "session" ? values : values.at(-1);
  }
  return filter;
}

/** A form whose values are a filter; `onchange` gets the new one. */
export class FilterBar {
  /** @param {(filter: Record<string, any>) => void} onchange */
  constructor(onchange) {
    this.onchange = onchange;
    this.timer = 0;
    this.text = h("input", { type: "search", "aria-label": "Text in messages", placeholder: "Text  /", "aria-keyshortcuts": "/" });
    this.method = h("input", {
      type: "search", list: "method-names", "aria-label": "Methods, for example session/*", placeholder: "Method, session/*",
    });
    this.path = h("input", { type: "search", "aria-label": "JSONPath expression", placeholder: "JSONPath, $..toolCallId" });
    this.session = h("select", { "aria-label": "Session" });
    this.direction = h(
      "select",
      { "aria-label": "Direction" },
      h("option", { value: "" }, "Both directions"),
      h("option", { value: "to_agent" }, "To the agent"),
      h("option", { value: "to_client" }, "To the client"),
    );
    this.rule = h("select", { "aria-label": "Broken rules" });
    this.sort = h("select", { "aria-label": "Sort" }, SORTS.map(([value, text]) => h("option", { value }, text)));
    this.errors = h("input", { type: "checkbox" });
    this.methodNames = h("datalist", { id: "method-names" });
    this.clear = h("button", { type: "button", onclick: () => this.onchange({}) }, "Clear");
    this.more = h(
      "details",
      { class: "more", open: innerWidth > 700 },
      h("summary", null, "Filters"),
      h(
        "div",
        { class: "fields" },
        this.method, this.methodNames, this.path, this.session, this.direction, this.rule, this.sort,
        h("label", null, this.errors, " Errors"),
        this.clear,
      ),
    );
    this.element = h(
      "form",
      { class: "filter", role: "search", "aria-label": "Filter", onsubmit: (event) => event.preventDefault() },
      this.text,
      this.more,
    );
    this.element.addEventListener("input", () => this.changed());
    this.setNames({ methods: [], sessions: [] });
    this.setRules([]);
  }

  /** Show the filter of the address, except in a field that the user is typing in. @param {any} filter */
  show(filter) {
    set(this.text, filter.text ?? "");
    set(this.method, (filter.method ?? []).join(" "));
    set(this.path, filter.path ?? "");
    choose(this.session, filter.session?.[0] ?? "");
    choose(this.direction, filter.direction ?? "");
    choose(this.rule, filter.rule ?? "");
    choose(this.sort, filter.sort ?? "");
    /** @type {any} */ (this.errors).checked = Boolean(filter.errors);
    this.clear.hidden = Object.keys(filter).length === 0;
    if (Object.keys(filter).some((name) => name !== "text")) this.more.setAttribute("open", "");
  }

  /**
   * Offer the names of methods and sessions.
   * @param {{methods: string[], sessions: string[]}} names
   */
  setNames({ methods, sessions }) {
    // The browser shows a value as it is, so a name that hides characters is not offered.
    fill(this.methodNames, methods.filter((name) => safe(name) === name).map((name) => h("option", { value: name })));
    offer(this.session, [["", "All sessions"], ...sessions.map((id) => [id, shortSession(id)])]);
  }

  /** Offer the broken rules. @param {{id: string, count: number}[]} rules */
  setRules(rules) {
    const all = rules.length ? [["any", "Any broken rule"]] : [];
    offer(this.rule, [["", "Rules"], ...all, ...rules.map((rule) => [rule.id, `${rule.id} (${count(rule.count)})`])]);
  }

  focus() {
    this.text.focus();
  }

  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.onchange(this.value()), WAIT_MS);
  }

  /** The filter that the form has. */
  value() {
    /** @type {Record<string, any>} */
    const all = {
      text: value(this.text),
      method: value(this.method).split(/[\s,]+/).filter(Boolean),
      path: value(this.path),
      session: value(this.session) ? [value(this.session)] : [],
      direction: value(this.direction),
      rule: value(this.rule),
      sort: value(this.sort),
      errors: /** @type {any} */ (this.errors).checked ? "1" : "",
    };
    return Object.fromEntries(Object.entries(all).filter(([, one]) => one.length));
  }
}

/** @param {Element} element */
function value(element) {
  return /** @type {any} */ (element).value.trim();
}

/** @param {Element} element @param {string} text */
function set(element, text) {
  const input = /** @type {HTMLInputElement} */ (element);
  if (document.activeElement !== input) input.value = text;
}

/** Choose an option, also one that is not offered. @param {Element} element @param {string} chosen */
function choose(element, chosen) {
  const select = /** @type {HTMLSelectElement} */ (element);
  if (![...select.options].some((option) => option.value === chosen)) {
    select.append(h("option", { value: chosen }, safe(chosen)));
  }
  select.value = chosen;
}

/** Offer options; the chosen one stays. @param {Element} element @param {string[][]} options */
function offer(element, options) {
  const chosen = /** @type {any} */ (element).value ?? "";
  fill(element, options.map(([name, text]) => h("option", { value: name }, safe(text))));
  choose(element, chosen);
}
