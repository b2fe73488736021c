// One session: its head, its entries, and the input of prompts.

import { count, fill, h } from "./dom.js";
import { endText, entryElement, updateEntry } from "./conversation_entries.js";
import { SessionHead } from "./conversation_head.js";
import { terminalElement } from "./conversation_parts.js";
import { PromptInput } from "./conversation_prompt.js";
import { act, SessionEntries } from "./conversation_store.js";
import { WaitingLine } from "./conversation_waiting.js";

/** @typedef {import("./conversation_store.js").Entry} Entry */
/** @typedef {{element: HTMLElement, mark: () => void, end: () => void}} Marks `mark` follows each change of the entries */

const NEAR_PX = 60; // from an edge
const MAX_SHOWN = 600; // entries, while the end is followed
const KEPT = 300;

export class SessionView {
  /**
   * @param {string} id @param {string} recording @param {(text: string) => void} announce
   * @param {(items: HTMLElement) => Marks} [marks] what the page says about the entries, in a line above them
   */
  constructor(id, recording, announce, marks) {
    this.id = id;
    this.announce = announce;
    this.entries = new SessionEntries(id, recording);
    this.head = new SessionHead(id);
    this.prompt = new PromptInput(id, announce, () => this.follow());
    this.earlier = h("button", { type: "button", class: "earlier", hidden: true, onclick: () => this.showEarlier() }, "Show earlier entries");
    this.items = h("div", { class: "entries" });
    this.log = h("div", {
      class: "log", role: "log", "aria-live": "off", "aria-label": "Entries of the session", tabindex: "0",
    }, this.earlier, this.items);
    this.toEnd = h("button", { type: "button", class: "to-end", hidden: true, onclick: () => this.follow() }, "Go to the end ↓");
    this.problem = h("p", { class: "bad", role: "alert" });
    this.waiting = new WaitingLine();
    this.marks = marks?.(this.items);
    this.items.addEventListener("click", (event) => this.clicked(event));
    this.element = h("section", { class: "session", "aria-label": "Session" },
      h("div", null, this.head.element, this.marks?.element), h("div", { class: "scroll-box" }, this.log, this.toEnd), this.waiting.element, this.problem, this.prompt.element);
    /** @type {Map<number, HTMLElement>} */
    this.elements = new Map();
    this.isFollowing = true;
    this.top = 0;
    this.entries.addEventListener("reset", () => this.reset());
    this.entries.addEventListener("entries", (event) => this.changed(/** @type {any} */ (event).detail));
    this.entries.addEventListener("terminals", (event) => this.terminals(/** @type {any} */ (event).detail));
    this.entries.addEventListener("state", () => this.showState());
    this.prompt.element.hidden = true;
    this.onScroll = () => this.scrolled();
    this.log.addEventListener("scroll", this.onScroll);
    document.querySelector("main")?.addEventListener("scroll", this.onScroll);
    this.observer = new ResizeObserver(() => this.isFollowing && this.follow());
    this.observer.observe(this.log);
  }

  end() {
    this.entries.isOver = true;
    this.waiting.show(undefined);
    this.marks?.end();
    document.querySelector("main")?.removeEventListener("scroll", this.onScroll);
    this.observer.disconnect();
  }

  /** @param {any} listed what the list says about the session @param {boolean} isOpen @param {any} client */
  update(listed, isOpen, client) {
    this.isOpen = isOpen;
    this.client = client;
    this.isOpened = listed.opened;
    this.prompt.element.hidden = !isOpen;
    this.element.classList.toggle("open", isOpen);
    this.waiting.show(listed.waits);
    this.head.setClient(isOpen, client);
    if (listed.changed > this.entries.now) this.refresh();
    else this.showState();
  }

  async refresh() {
    try {
      await this.entries.refresh();
      fill(this.problem);
    } catch (error) {
      if (!this.entries.isOver) fill(this.problem, error.message);
    }
  }

  showState() {
    const { state } = this.entries;
    if (!state) return;
    this.head.update(state, Boolean(this.isOpen || !this.client), this.isOpened);
    this.prompt.commands = state.commands;
    this.prompt.canSteer = Boolean(this.client?.agent?.supports.includes("steer"));
    this.prompt.setRunning(state.running);
  }

  /** Cancel the tool call whose button was pressed. @param {Event} event */
  async clicked(event) {
    const button = /** @type {HTMLButtonElement | null} */ (/** @type {Element} */ (event.target).closest("button.cancel-call"));
    if (!button) return;
    button.disabled = true;
    try {
      await act("cancel-tool-call", { session: this.id, call: button.dataset.call });
    } catch (error) {
      button.disabled = false;
      fill(this.problem, error.message);
    }
  }

  // Entries.

  reset() {
    this.items.replaceChildren();
    this.elements.clear();
  }

  /** @param {Entry[]} changed */
  changed(changed) {
    const isFirst = this.elements.size === 0;
    for (const entry of changed) {
      const known = this.elements.get(entry.id);
      if (known) updateEntry(known, entry, this.entries.terminals);
      else this.add(entry);
      if (!isFirst) this.tell(entry, !known);
    }
    this.marks?.mark();
    if (this.isFollowing) {
      this.forgetEarly();
      this.follow();
    }
    this.showEarlierButton();
  }

  /** @param {Entry} entry */
  add(entry) {
    const element = entryElement(entry, this.entries.terminals);
    this.elements.set(entry.id, element);
    const after = this.elements.get(entry.id + 1);
    if (after) after.before(element);
    else this.items.append(element);
  }

  /** Announce what a user must know who does not see the page. @param {Entry} entry @param {boolean} isNew */
  tell(entry, isNew) {
    if (entry.kind === "end") {
      const answer = [...this.entries.entries.values()].findLast((item) => item.kind === "message" && item.role === "agent");
      const text = answer && this.elements.get(answer.id)?.querySelector(".parts")?.textContent;
      this.announce(`${endText(entry)}. ${(text ?? "").slice(0, 300)}`);
    } else if (entry.kind === "tool" && isNew) {
      this.announce(`Tool call: ${entry.title}`);
    } else if (entry.kind === "steer" && !isNew) {
      this.announce(this.elements.get(entry.id)?.textContent ?? "");
    } else if (isNew && ["error", "connection", "failure"].includes(entry.kind)) {
      this.announce(this.elements.get(entry.id)?.textContent ?? "");
    }
  }

  /** @param {Record<string, any>} changed */
  terminals(changed) {
    for (const box of this.items.querySelectorAll(".terminal")) {
      const terminal = changed[/** @type {HTMLElement} */ (box).dataset.terminal ?? ""];
      if (!terminal) continue;
      fill(box, terminalElement(terminal));
      const output = box.querySelector("pre.output");
      if (output) output.scrollTop = output.scrollHeight;
    }
    if (this.isFollowing) this.follow();
  }

  // Scrolling.

  /** Return what scrolls: on a small screen it is the page. */
  get box() {
    const isOwn = getComputedStyle(this.log).overflowY !== "visible";
    return isOwn ? this.log : document.querySelector("main") ?? this.log;
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    // The box also becomes smaller, and its content grows: only the user scrolls up.
    if (isAtEnd || scrollTop < this.top) this.isFollowing = isAtEnd;
    this.top = scrollTop;
    this.toEnd.hidden = this.isFollowing;
    if (scrollTop < NEAR_PX && this.entries.first > 0 && scrollHeight > clientHeight) this.showEarlier();
  }

  follow() {
    this.isFollowing = true;
    this.toEnd.hidden = true;
    this.box.scrollTop = this.box.scrollHeight;
  }

  async showEarlier() {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      const { box } = this;
      const before = box.scrollHeight - box.scrollTop;
      for (const entry of (await this.entries.older()).reverse()) this.add(entry);
      this.marks?.mark();
      box.scrollTop = box.scrollHeight - before;
      this.showEarlierButton();
    } catch (error) {
      fill(this.problem, error.message);
    } finally {
      this.isLoading = false;
    }
  }

  showEarlierButton() {
    this.earlier.hidden = this.entries.first <= 0;
    this.earlier.textContent = `Show earlier entries (${count(Math.max(this.entries.first, 0))})`;
  }

  /** Drop the first entries of a long session: the end is followed. */
  forgetEarly() {
    if (this.elements.size <= MAX_SHOWN) return;
    const first = this.entries.total - KEPT;
    for (let id = this.entries.first; id < first; id++) {
      this.elements.get(id)?.remove();
      this.elements.delete(id);
    }
    this.entries.forget(first);
  }
}
