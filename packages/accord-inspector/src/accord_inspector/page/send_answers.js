// What was sent by hand since the page was opened, with the responses to it.

import { get } from "./api.js";
import { duration, fill, h, safe } from "./dom.js";
import { messageAddress, shownNumber } from "./router.js";

const MAX = 50;

export class Answers {
  constructor() {
    /** @type {any[]} the newest first */
    this.entries = [];
    this.list = h("ol", { class: "answers" });
    this.element = h("div", null, h("h3", null, "Answers"), h("div", { "aria-live": "polite" }, this.list));
    this.isLooking = false;
    this.isWanted = false; // messages have come while it was looking
    this.draw();
  }

  /** @param {any} message @param {any} sent */
  add(message, sent) {
    const name = message.method ?? "raw frame";
    this.entries.unshift({ name, n: sent.n, waits: sent.id !== null, answer: null });
    this.entries.length = Math.min(this.entries.length, MAX);
    this.draw();
    this.look();
  }

  /** Look for responses that have come. */
  async look() {
    this.isWanted = true;
    if (this.isLooking) return;
    this.isLooking = true;
    try {
      while (this.isWanted) {
        this.isWanted = false;
        for (const entry of this.entries.filter((one) => one.waits)) await this.find(entry);
      }
    } finally {
      this.isLooking = false;
    }
  }

  /** @param {any} entry */
  async find(entry) {
    let request;
    try {
      request = await get(`/api/messages/${entry.n}`);
    } catch {
      return; // not in the recording yet
    }
    if (request.row.pair === undefined || request.row.pair === null) return;
    entry.answer = await get(`/api/messages/${request.row.pair}`);
    entry.seconds = entry.answer.row.seconds ?? entry.answer.row.ts - request.row.ts;
    entry.waits = false;
    this.draw();
  }

  draw() {
    if (this.entries.length) fill(this.list, this.entries.map((entry) => h("li", null, ...parts(entry))));
    else fill(this.list, h("li", { class: "soft" }, "Responses to what you send appear here."));
  }
}

/** @param {any} entry */
function parts(entry) {
  const link = h("a", { href: messageAddress(entry.n) }, `${safe(entry.name)} · message ${shownNumber(entry.n)}`);
  if (entry.waits) return [link, h("span", { class: "soft" }, " waits for a response")];
  if (!entry.answer) return [link, h("span", { class: "soft" }, " sent")];
  const { row, value, raw } = entry.answer;
  const text = value ? JSON.stringify(value.error ?? value.result, null, 2) : raw;
  return [
    link,
    h("span", { class: row.error ? "bad" : "good" }, row.error ? " error after " : " answered after ", duration(entry.seconds)),
    " ",
    h("a", { href: messageAddress(row.n) }, "response"),
    h("pre", null, safe(text ?? "")),
  ];
}
