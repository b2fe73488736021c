// One message: pretty, raw, explained, with the rules that it breaks.

import { get } from "./api.js";
import { count, duration, fill, h, safe, size } from "./dom.js";
import { explanationView, fieldDoc, ruleItems } from "./message-explanation.js";
import { countHidden, finderOf, textNodes } from "./message-text.js";
import { JsonTree } from "./message-tree.js";
import { address, go, messageAddress, params, pathParts, shownNumber } from "./router.js";
import { KINDS, laneOf, wayOf } from "./timeline-row.js";

const TABS = [
  ["pretty", "Pretty"],
  ["raw", "Raw"],
  ["explained", "Explained"],
];
const COPIES = [
  ["json", "JSON"],
  ["python", "Python"],
  ["shell", "Shell command"],
];
const MAX_RAW = 500_000; // characters that are shown; the copy has all

class MessageView extends HTMLElement {
  /** Show a message. @param {number} n */
  async show(n) {
    this.n = n;
    const recording = params().get("recording") ?? "";
    try {
      const [found, explained] = await Promise.all([
        get(`/api/messages/${n}`, { recording }),
        get(`/api/explanation/${n}`, { recording }),
      ]);
      if (this.n === n) this.draw(found, explained);
    } catch (error) {
      if (this.n === n) this.showProblem(/** @type {Error} */ (error).message);
    }
  }

  /** Mark a text, and show its first place. @param {string} text */
  search(text) {
    if (text === this.text) return;
    this.text = text;
    this.finder = finderOf(text);
    if (this.found && Number(this.n) >= 0) this.choose(params().get("show") ?? "pretty", false);
  }

  /** Say why there is no message. @param {string} text */
  showProblem(text) {
    this.n = -1;
    fill(this, h("p", { class: "bad", role: "alert" }, text), this.closeButton());
  }

  clear() {
    this.n = -1;
    fill(this);
  }

  /** @param {any} found @param {any} explained */
  draw(found, explained) {
    this.found = found;
    this.explained = explained;
    const { row } = found;
    const hadFocus = this.contains(document.activeElement) ? document.activeElement?.id : "";
    const kind = KINDS[row.kind] ?? row.kind;
    const name = row.method ? `${safe(row.method)} ` : "";
    this.panel = h("div", { class: "panel", role: "tabpanel", id: "message-panel", "aria-labelledby": "tab-pretty" });
    this.tabs = TABS.map(([id, title]) =>
      h("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "message-panel", onclick: () => this.choose(id) }, title),
    );
    this.rules = h("section", { class: "broken", "aria-label": "Broken rules" });
    this.drawRules();
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", `Message ${shownNumber(row.n)}`);
    fill(
      this,
      h("div", { class: "message-head" },
        h("h3", null, h("span", { class: "n" }, `#${shownNumber(row.n)}`), " ", name, h("span", { class: "kind" }, kind)),
        this.closeButton()),
      this.facts(row),
      this.actions(row),
      this.rules,
      h("div", { class: "tabs", role: "tablist", "aria-label": "How to show it", onkeydown: (event) => this.tabKey(event) }, this.tabs),
      this.panel,
    );
    this.choose(params().get("show") ?? "pretty", false);
    if (hadFocus) /** @type {any} */ (this.querySelector(`#${CSS.escape(hadFocus)}`))?.focus();
  }

  drawRules() {
    const { broken } = this.explained;
    this.rules?.toggleAttribute("hidden", broken.length === 0);
    fill(this.rules, ruleItems(broken));
  }

  /** Show which rules the message breaks now: they are judged later than it is shown. */
  async refreshRules() {
    const { n } = this;
    if (n === undefined || n < 0 || !this.explained) return;
    const explained = await get(`/api/explanation/${n}`, { recording: params().get("recording") ?? "" }).catch(() => null);
    if (!explained || this.n !== n || explained.broken.length === this.explained.broken.length) return;
    this.explained.broken = explained.broken;
    this.drawRules();
  }

  closeButton() {
    return h("button", { type: "button", class: "close", "aria-keyshortcuts": "Escape", onclick: () => go(address(["timeline"], withoutShow())) }, "Close");
  }

  /** @param {any} row */
  facts(row) {
    const items = [
      ["Way", wayOf(row)],
      ["Time", `${row.ts.toFixed(6)} s`],
      ["Size", size(row.bytes ?? 0)],
      row.id && ["Id", safe(row.id)],
      typeof row.seconds === "number" && ["Latency", duration(row.seconds)],
      row.session && ["Session", h("span", { class: `session lane-${laneOf(row.session)}` }, safe(row.session))],
      row.conn && ["Connection", safe(row.conn)],
      this.found.fault && ["Fault of the inspector", h("b", { class: "warn" }, this.found.fault)],
      this.found.reason && ["Reason", safe(this.found.reason)],
      this.explained.version && ["Version", String(this.explained.version)],
    ].filter(Boolean);
    return h("dl", { class: "facts" }, items.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
  }

  /** @param {any} row */
  actions(row) {
    const link = (/** @type {number} */ n, /** @type {string} */ text, id) => h("a", { id, class: "button", href: messageAddress(n, params()) }, text);
    const copy = h("button", { type: "button", id: "copy-message", onclick: () => this.copy(copy) }, "Copy");
    return h("p", { class: "actions" },
      row.n > 0 && link(row.n - 1, "‹ Previous", "previous-message"),
      row.n + 1 < this.explained.total && link(row.n + 1, "Next ›", "next-message"),
      typeof row.pair === "number" && link(row.pair, row.kind === "request" ? "Its response" : "Its request", "pair-message"),
      row.kind === "request" && typeof row.pair !== "number" && h("span", { class: "soft" }, "No response so far"),
      row.kind === "response" && typeof row.pair !== "number" && h("span", { class: "bad" }, "Its request: none. No request with this id was waiting for a response."),
      copy,
      this.copies(),
      this.explained.canSend && h("a", { id: "resend-message", class: "button", href: address(["send"], { message: shownNumber(row.n) }) }, "Send again"));
  }

  /** @param {HTMLElement} button */
  async copy(button) {
    try {
      await navigator.clipboard.writeText(this.found.raw);
      button.textContent = "Copied";
    } catch {
      this.choose("raw");
      getSelection()?.selectAllChildren(/** @type {Node} */ (this.panel));
      button.textContent = "Selected: press Ctrl-C";
    }
  }

  /** Return the buttons that copy the message in other forms, in a menu. */
  copies() {
    const buttons = COPIES.map(([form, title]) =>
      h("button", { type: "button", id: `copy-${form}`, onclick: (/** @type {any} */ event) => this.copyAs(form, event.target) }, title));
    return h("details", { class: "copies" }, h("summary", null, "Copy as…"), h("div", { class: "menu" }, buttons));
  }

  /** @param {string} form @param {HTMLElement} button */
  async copyAs(form, button) {
    const name = button.textContent;
    let text = "";
    try {
      text = (await get(`/api/copies/${this.n}`, { recording: params().get("recording") ?? "" }))[form];
      if (!text) throw new Error("This frame is not JSON");
      await navigator.clipboard.writeText(text);
      button.textContent = `${name}: copied`;
    } catch (error) {
      // Without access to the clipboard, the text is shown to be copied by hand.
      const shown = text ? h("pre", { class: "raw", tabindex: "0", dir: "ltr" }, textNodes(text)) : h("p", { class: "bad" }, /** @type {Error} */ (error).message);
      fill(this.panel, shown);
      if (text) getSelection()?.selectAllChildren(shown);
      button.textContent = text ? `${name}: selected, press Ctrl-C` : String(name);
    }
  }

  /** @param {string} id @param {boolean} [isUsers] */
  choose(id, isUsers = true) {
    const known = TABS.some(([one]) => one === id) ? id : "pretty";
    if (isUsers) {
      const query = withoutShow();
      if (known !== "pretty") query.set("show", known);
      go(address(pathParts(), query), { replace: true });
    }
    for (const tab of this.tabs ?? []) {
      const isCurrent = tab.id === `tab-${known}`;
      tab.setAttribute("aria-selected", String(isCurrent));
      tab.setAttribute("tabindex", isCurrent ? "0" : "-1");
    }
    this.panel?.setAttribute("aria-labelledby", `tab-${known}`);
    fill(this.panel, known === "raw" ? this.raw() : known === "explained" ? explanationView(this.explained) : this.pretty());
    const place = this.panel?.querySelector("mark.match");
    if (place) place.scrollIntoView({ block: "center" });
    else if (!isUsers) this.scrollTop = 0;
  }

  /** @param {KeyboardEvent} event */
  tabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = (this.tabs ?? []).indexOf(/** @type {any} */ (event.target));
    const next = (at + step + TABS.length) % TABS.length;
    this.choose(TABS[next][0]);
    this.tabs?.[next].focus();
    event.preventDefault();
  }

  pretty() {
    const value = exactValue(this.found);
    if (value === null || value === undefined) {
      return [h("p", { class: "bad" }, "This frame is not JSON."), this.raw()];
    }
    const doc = h("aside", { class: "field-doc", "aria-live": "polite", "aria-label": "Field" });
    const tree = new JsonTree(value, {
      problems: this.explained.problems,
      onfocus: (path) => fieldDoc(doc, path, this.explained),
      finder: this.finder,
    });
    fieldDoc(doc, "", this.explained);
    const wrong = this.explained.problems;
    const list = wrong.length > 0 && h("p", { class: "wrong-list" }, `${wrong.length} ${wrong.length === 1 ? "difference" : "differences"} from ${this.explained.title}: `,
      wrong.slice(0, 10).map((one, at) => [at > 0 && ", ", h("button", { type: "button", onclick: () => tree.focusPath(one.path) }, safe(one.path))]));
    const isInRaw = this.finder && !tree.place && this.found.raw.search(this.finder) >= 0;
    const note = isInRaw && h("p", { class: "soft" }, "The text of the filter is not in one value: ",
      h("button", { type: "button", onclick: () => this.choose("raw") }, "Show it in Raw"));
    return [list, note, tree.element, doc];
  }

  raw() {
    const { raw } = this.found;
    const hidden = countHidden(raw);
    const place = this.finder ? raw.search(this.finder) : -1;
    const from = Math.max(0, Math.min(place - MAX_RAW / 2, raw.length - MAX_RAW));
    const to = Math.min(from + MAX_RAW, raw.length);
    const notes = [
      hidden > 0 && `${hidden} control characters are marked.`,
      raw.length > MAX_RAW && `Only the characters ${count(from + 1)} to ${count(to)} of ${count(raw.length)} are shown.`,
    ].filter(Boolean);
    return [
      notes.length > 0 && h("p", { class: "soft" }, notes.join(" ")),
      h("pre", { class: "raw", tabindex: "0", dir: "ltr" }, textNodes(raw.slice(from, to), this.finder)),
    ];
  }
}

/** Return the value of a message; integers that JavaScript would round are exact. @param {any} found */
function exactValue({ raw, value }) {
  try {
    return JSON.parse(raw, /** @type {any} */ (exactNumber));
  } catch {
    return value; // the server accepts more than JSON.parse
  }
}

/** @param {string} _key @param {any} value @param {{source: string} | undefined} context */
function exactNumber(_key, value, context) {
  const isRounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return isRounded && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context?.source ?? 0) : value;
}

function withoutShow() {
  const query = params();
  query.delete("show");
  return query;
}

customElements.define("message-view", MessageView);
