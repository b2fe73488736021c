// The view "Send": any method, or any bytes, by hand.

import { get, live, post } from "./api.js";
import { fill, h, safe } from "./dom.js";
import { address, go, messageAddress, messageOf, params, router, shownNumber } from "./router.js";
import { Answers } from "./send_answers.js";
import { SchemaForm } from "./send_form.js";
import { History } from "./send_history.js";
import { rawForm } from "./send_raw.js";
import { Schema } from "./send_schema.js";

const OTHER = "…";
const CHECK_MS = 250;
const DIRECTIONS = { to_agent: "To the agent", to_client: "To the client" };

class SendView extends HTMLElement {
  constructor() {
    super();
    this.answers = new Answers();
    this.history = new History((entry) => this.edit(entry));
    /** @type {SchemaForm | null} */
    this.form = null;
    this.value = /** @type {any} */ ({});
    this.method = "";
    this.version = 0; // the one that the agent speaks
    this.direction = "to_agent";
    this.kind = "request";
    this.shown = /** @type {string | null} */ (null);
    this.loads = 0; // how often something else was chosen: what is loaded for an earlier choice is not shown
    this.checkAt = 0;
    this.checks = 0; // only the result of the newest check is shown
    /** @type {(() => void)[]} */
    this.ends = [];
    this.choice = h("div", { class: "choices" });
    this.editor = h("div", { class: "editor" });
    this.result = h("p", { class: "result", role: "status" });
  }

  connectedCallback() {
    this.replaceChildren(
      h("h2", null, "Send by hand"),
      h("div", { class: "send-columns" },
        h("section", { "aria-label": "Message" }, this.choice, this.editor, this.result),
        h("section", { "aria-label": "Sent" }, this.answers.element, this.history.element)),
    );
    const show = () => this.show().catch((error) => this.problem(error));
    router.addEventListener("change", show);
    live.watch({});
    this.ends = [() => router.removeEventListener("change", show), live.on("messages", () => this.answers.look()),
      live.on("state:sent", () => this.history.take())];
    show();
  }

  disconnectedCallback() {
    for (const end of this.ends) end();
    clearTimeout(this.checkAt);
  }

  /** Show what the address names. */
  async show() {
    const query = params();
    if (query.toString() === this.shown) return;
    // Nothing of the previous method can be sent while the next one is loaded.
    fill(this.editor);
    this.shown = query.toString();
    const load = ++this.loads;
    const title = (await get("/api/inspection")).title;
    this.history.open(title);
    const number = query.get("message");
    if (number !== null) {
      const { message } = await get("/api/send/from", { message: messageOf(number) });
      if (load === this.loads) this.edit(message, true);
      return;
    }
    if (load !== this.loads) return;
    this.version = Number(query.get("version"));
    this.direction = query.get("direction") === "to_client" ? "to_client" : "to_agent";
    const raw = query.get("raw");
    if (raw !== null) {
      this.showRaw(raw);
      return;
    }
    await this.showMethod(query.get("method") ?? "session/prompt", load);
  }

  /** Edit a message that was sent: its text, or its method and params. @param {any} entry @param {boolean} [replace] */
  edit(entry, replace = false) {
    const { version = this.version, direction, method, raw } = entry;
    this.pending = entry;
    this.shown = null;
    const query = raw === undefined ? { version, direction, method } : { version, direction, raw: raw || "1" };
    go(address(["send"], query), { replace });
  }

  /** Load the form of a method, unless something else is chosen meanwhile. @param {string} name @param {number} load */
  async showMethod(name, load) {
    const { methods, version } = await get("/api/methods", { version: this.version || "" });
    const entry = methods.find((/** @type {any} */ one) => one.method === name && one.direction === this.direction);
    const form = entry && await get("/api/form", { version, direction: this.direction, method: name });
    if (load !== this.loads) return;
    this.version = version;
    this.method = name;
    this.drawChoice(methods, entry ? name : OTHER);
    const pending = this.pending?.method === name ? this.pending : null;
    this.pending = null;
    this.kind = pending?.kind ?? entry?.kind ?? "request";
    if (entry) {
      this.value = pending ? pending.params : form.params;
      this.form = new SchemaForm(new Schema(form.schema, form.suggestions), this.value, (value) => this.changed(value));
    } else {
      this.value = pending ? pending.params : {};
      this.form = null;
    }
    this.drawEditor(entry);
    this.check();
  }

  /** @param {string} text */
  showRaw(text) {
    this.drawChoice([], "");
    const pending = this.pending;
    this.pending = null;
    fill(this.editor, rawForm(pending?.raw ?? (text === "1" ? "" : text), async (entry) => {
      const message = { ...entry, direction: this.direction, version: this.version };
      const sent = await post("/api/send/raw", message);
      this.sent(message, sent);
    }, (error) => this.problem(error)));
  }

  /** @param {any[]} methods @param {string} current */
  drawChoice(methods, current) {
    const change = (/** @type {Record<string, any>} */ changes) => {
      // Two choices can be made before the first of them is loaded: the address knows both.
      const query = { version: this.version || "", direction: this.direction, method: this.method };
      go(address(["send"], { ...query, ...Object.fromEntries(params()), ...changes }));
    };
    const isRaw = current === "";
    const tabs = [["Method", { raw: "" }, !isRaw], ["Raw frame", { raw: "1", method: "" }, isRaw]].map(([text, query, is]) =>
      h("button", { type: "button", "aria-pressed": String(is), onclick: () => change(/** @type {any} */ (query)) }, text));
    const versions = select("Version", [["1", "v1"], ["2", "v2"]], String(this.version), (version) => change({ version }));
    const sides = select("Direction", Object.entries(DIRECTIONS), this.direction, (direction) => change({ direction, method: "" }));
    const focused = this.choice.contains(document.activeElement) ? document.activeElement?.id : "";
    fill(this.choice, h("div", { class: "tabs", role: "group", "aria-label": "What to send" }, tabs), isRaw ? null : versions, sides,
      isRaw ? null : this.methodChoice(methods, current, change));
    if (focused) document.getElementById(focused)?.focus();
  }

  /** @param {any[]} methods @param {string} current @param {(changes: any) => void} change */
  methodChoice(methods, current, change) {
    const some = methods.filter((one) => one.direction === this.direction);
    const group = (/** @type {string} */ label, /** @type {string} */ kind) =>
      h("optgroup", { label }, some.filter((one) => one.kind === kind).map((one) =>
        h("option", { value: one.method, selected: one.method === current }, one.unstable ? `${one.method} (unstable)` : one.method)));
    const list = h("select", { id: "send-method", onchange: (/** @type {any} */ event) => change({ method: event.target.value }) },
      group("Requests", "request"), group("Notifications", "notification"),
      h("option", { value: "_example/method", selected: current === OTHER }, "Another method…"));
    const name = current === OTHER
      ? h("input", { type: "text", value: this.method, "aria-label": "Name of the method", oninput: (/** @type {any} */ event) => { this.method = event.target.value; } })
      : null;
    return [labelled("Method", list), name];
  }

  /** @param {any} entry */
  drawEditor(entry) {
    this.json = h("textarea", { class: "json", rows: "14", spellcheck: "false", id: "send-json", "aria-describedby": "send-json-problem",
      value: JSON.stringify(this.value, null, 2) ?? "", oninput: () => this.typed() });
    this.jsonProblem = h("p", { id: "send-json-problem", class: "bad", role: "alert" });
    const kinds = select("As", [["request", "Request"], ["notification", "Notification"]], this.kind, (kind) => { this.kind = kind; });
    const summary = entry && h("p", { class: "soft" }, entry.summary, entry.gate ? ` Needs the capability ${entry.gate}.` : "");
    fill(this.editor, summary, h("div", { class: "form-and-json" },
      this.form && h("div", null, h("h3", null, "Form"), this.form.element),
      h("div", null, h("h3", null, h("label", { for: "send-json" }, "Params as JSON")), this.json, this.jsonProblem)),
    h("div", { class: "actions" }, kinds,
      h("button", { type: "button", class: "primary", onclick: () => this.send() }, "Send"),
      h("button", { type: "button", onclick: () => this.reset() }, "Reset")));
  }

  /** The form has changed. @param {any} value */
  changed(value) {
    this.value = value;
    /** @type {any} */ (this.json).value = JSON.stringify(value, null, 2);
    this.syntax("");
    this.checkSoon();
  }

  /** The JSON was edited. */
  typed() {
    try {
      const text = /** @type {any} */ (this.json).value;
      this.value = text.trim() ? JSON.parse(text) : undefined;
      this.syntax("");
    } catch (error) {
      this.syntax(/** @type {Error} */ (error).message);
      return;
    }
    this.form?.show(this.value);
    this.checkSoon();
  }

  /** @param {string} text */
  syntax(text) {
    fill(/** @type {Element} */ (this.jsonProblem), text && `Not JSON: ${safe(text)}`);
    this.json?.toggleAttribute("aria-invalid", Boolean(text));
    this.hasSyntaxError = Boolean(text);
  }

  checkSoon() {
    clearTimeout(this.checkAt);
    this.checkAt = setTimeout(() => this.check(), CHECK_MS);
  }

  /** Mark what the types of the protocol would reject; it can be sent anyway. */
  async check() {
    const { form } = this;
    if (!form) return;
    const message = { version: this.version, direction: this.direction, method: this.method, params: this.value };
    const check = ++this.checks;
    try {
      const { problems } = await post("/api/form/check", message);
      if (check === this.checks) form.mark(problems);
    } catch (error) {
      this.problem(error);
    }
  }

  async send() {
    if (this.hasSyntaxError) {
      this.json?.focus();
      return;
    }
    const message = { version: this.version, direction: this.direction, method: this.method, kind: this.kind, params: this.value };
    try {
      this.sent(message, await post("/api/send", message));
    } catch (error) {
      this.problem(error);
    }
  }

  /** @param {any} message @param {any} sent */
  sent(message, sent) {
    fill(this.result, message.raw === undefined ? `Sent ${message.method}` : "Sent", " as message ",
      h("a", { href: messageAddress(sent.n) }, shownNumber(sent.n)));
    this.result.className = "result good";
    this.answers.add(message, sent);
  }

  reset() {
    this.shown = null;
    this.show().catch((error) => this.problem(error));
  }

  /** @param {any} error */
  problem(error) {
    fill(this.result, safe(error.message));
    this.result.className = "result bad";
  }
}

/** @param {string} text @param {HTMLElement} control */
function labelled(text, control) {
  return h("label", { class: "labelled" }, h("span", null, text), control);
}

/** @param {string} text @param {string[][]} options @param {string} current @param {(value: string) => void} changed */
function select(text, options, current, changed) {
  return labelled(text, h("select", { id: `send-${text.toLowerCase()}`, onchange: (/** @type {any} */ event) => changed(event.target.value) },
    options.map(([value, label]) => h("option", { value, selected: value === current }, label))));
}

customElements.define("view-send", SendView);
