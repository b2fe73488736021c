// The line that names the messages of a session that break rules, and the marks of its entries.

import { get, live } from "./api.js";
import { count, fill, h } from "./dom.js";
import { address, messageAddress, shownNumber } from "./router.js";

const NAMED = 5; // messages that the line names; it links to all
const MARKED = 500;

export class BrokenLine {
  /** @param {string} session @param {string} recording @param {HTMLElement} items its entries */
  constructor(session, recording, items) {
    this.query = { session, rule: "any" };
    this.recording = recording;
    this.items = items;
    this.element = h("p", { class: "broken-line bad", hidden: true });
    /** @type {Map<number, string>} the rules that a message breaks */
    this.rules = new Map();
    this.known = 0; // broken rules of the recording, when the messages were loaded
    this.newest = 0;
    this.isLoading = false;
    this.end = live.on("messages", (now) => this.look(now.broken ?? 0));
    this.look(live.messages?.broken ?? 0);
  }

  /** Load the messages if there are more than before. @param {number} broken */
  async look(broken) {
    this.newest = broken;
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      while (this.newest !== this.known) {
        const { newest } = this;
        this.show(await get("/api/messages", { ...this.query, recording: this.recording, count: MARKED }));
        this.known = newest;
      }
    } catch {
      // The next counts come soon, and the page says if the inspector does not respond.
    } finally {
      this.isLoading = false;
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
