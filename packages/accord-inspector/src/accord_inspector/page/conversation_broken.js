// The line that names the messages of a session that break rules, and the marks of its entries.

import { ApiError, get, live } from "./api.js";
import { count, fill, h } from "./dom.js";
import { address, messageAddress, shownNumber } from "./router.js";

const NAMED = 5; // messages that the line names; it links to all
const MARKED = 500;
const AGAIN_MS = 1000;
const FAILED = -1;

export class BrokenLine {
  /** @param {string} session @param {string} recording @param {HTMLElement} items its entries */
  constructor(session, recording, items) {
    this.query = { session, rule: "any" };
    this.recording = recording;
    this.items = items;
    this.element = h("p", { class: "broken-line bad", hidden: true });
    /** @type {Map<number, string>} the rules that a message breaks */
    this.rules = new Map();
    this.asked = 0; // broken rules of the recording, when the messages were asked for
    this.newest = 0;
    this.isBusy = false; // loading, or waiting before it loads again
    this.isOver = false;
    this.timer = 0;
    this.ends = live.on("messages", (now) => this.look(now.broken ?? 0));
    this.look(live.messages?.broken ?? 0);
  }

  end() {
    this.isOver = true;
    this.ends();
    clearTimeout(this.timer);
  }

  /** Load the messages if there are more than before, but not each time. @param {number} broken */
  look(broken) {
    this.newest = broken;
    if (!this.isBusy && this.newest !== this.asked) this.load();
  }

  async load() {
    this.isBusy = true;
    this.asked = this.newest;
    const found = await this.found();
    if (this.isOver) return;
    this.timer = setTimeout(() => this.waited(), AGAIN_MS);
    if (found) this.show(found);
  }

  waited() {
    this.isBusy = false;
    if (this.asked !== FAILED) this.look(this.newest);
  }

  async found() {
    try {
      return await get("/api/messages", { ...this.query, recording: this.recording, count: MARKED });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.asked = FAILED; // the next counts come soon, and the page says if the inspector does not respond
      return null;
    }
  }

  /** @param {{matched: number, rows: any[]}} found */
  show({ matched, rows }) {
    this.rules = new Map(rows.map((row) => [row.n, (row.rules ?? []).join(", ")]));
    this.element.hidden = matched === 0;
    const named = rows.slice(0, NAMED).map((row, at) => [at ? "; " : "", h("a", { href: messageAddress(row.n) }, `#${shownNumber(row.n)} ${this.rules.get(row.n)}`)]);
    const text = matched === 1 ? "⚠ 1 message of this session breaks a rule: " : `⚠ ${count(matched)} messages of this session break rules: `;
    fill(this.element, text, named, matched > NAMED ? ["; ", h("a", { href: address(["timeline"], this.query) }, "all of them")] : null);
    this.mark();
  }

  /** Mark the entries whose messages break rules. */
  mark() {
    if (this.rules.size === 0) return;
    for (const link of this.items.querySelectorAll("a.message-link:not(.bad)")) {
      const rules = this.rules.get(Number(/** @type {HTMLElement} */ (link).dataset.message));
      if (rules === undefined) continue;
      link.classList.add("bad");
      link.prepend("⚠ ");
      link.setAttribute("aria-label", `${link.getAttribute("aria-label")}, which breaks ${rules}`);
      link.setAttribute("title", `Breaks ${rules}. Show the message in the timeline`);
    }
  }
}
