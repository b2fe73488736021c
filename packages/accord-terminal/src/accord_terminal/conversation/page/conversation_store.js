// What the page knows of the conversation: the list of sessions, and the entries of one of them.

import { get, live, post } from "./api.js";

/** @typedef {Record<string, any>} Entry what the server sends of an entry (`entry_json`) */

/** Do an action of the client. @param {string} action @param {Record<string, any>} [body] */
export async function act(action, body = {}) {
  return (await post(`/api/conversation/${action}`, body)).result;
}

/**
 * Show a session that was just opened from an element of the view. Its prompt gets the focus, unless the user has moved to another
 * field than `before`, which had the focus when the session was requested; `text` returns what was typed until the prompt is visible.
 * @param {Element} element @param {string} session @param {Element | null} before @param {() => string} [text]
 */
export function opened(element, session, before, text = () => "") {
  element.dispatchEvent(new CustomEvent("opened", { bubbles: true, detail: { session, before, text } }));
}

/**
 * The sessions of a recording, and the state of the client of a live agent.
 *
 * Fires `change` when `value` is new (`Conversation.json` of the server).
 */
export class Sessions extends EventTarget {
  /** @param {string} recording */
  constructor(recording) {
    super();
    this.recording = recording;
    /** @type {any} */
    this.value = null;
    const name = recording ? `conversation:${recording}` : "conversation";
    this.stop = live.on(`state:${name}`, (value) => this.set(value));
  }

  /** Get the first state; later ones are pushed. */
  async start() {
    const before = this.value;
    const value = await get("/api/conversation", { recording: this.recording });
    if (this.value === before) this.set(value); // what was pushed meanwhile is newer
  }

  /** @param {any} value */
  set(value) {
    this.value = value;
    this.dispatchEvent(new Event("change"));
  }

  /** Return what the list says about a session. @param {string} id */
  find(id) {
    return this.value?.sessions.find((/** @type {any} */ session) => session.id === id);
  }

  /** Whether the client has this session open. @param {string} id */
  isOpen(id) {
    return Boolean(this.value?.client?.open.includes(id));
  }
}

/**
 * The entries of one session from `first` on. `refresh` gets what has changed.
 *
 * Fires `reset` when everything is new, `entries` with the changed ones, and `state`.
 */
export class SessionEntries extends EventTarget {
  /** @param {string} id @param {string} recording */
  constructor(id, recording) {
    super();
    this.id = id;
    this.recording = recording;
    this.reset();
    /** @type {any} the state of the session (`session_json` of the server) */
    this.state = null;
    /** @type {Record<string, any>} */
    this.terminals = {};
    this.isBusy = false;
    this.isWanted = false;
    this.isOver = false;
  }

  reset() {
    /** @type {Map<number, Entry>} */
    this.entries = new Map();
    this.first = -1;
    this.total = 0;
    this.epoch = -1;
    this.now = -1;
  }

  /** Get what has changed since the last call; calls while one is running are one more request. */
  async refresh() {
    this.isWanted = true;
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      while (this.isWanted && !this.isOver) {
        this.isWanted = false;
        const { id: session, recording, now: since, epoch, first } = this;
        this.apply(
          await get("/api/conversation/session", {
            session, recording, since: String(since), epoch: String(epoch), first: String(first),
          }),
        );
      }
    } finally {
      this.isBusy = false;
    }
  }

  /** @param {any} answer */
  apply(answer) {
    if (this.isOver) return;
    if (answer.whole) {
      this.reset();
      this.terminals = {};
    }
    this.epoch = answer.epoch;
    this.now = answer.now;
    this.first = answer.first;
    this.total = answer.total;
    Object.assign(this.terminals, answer.terminals);
    if (answer.state) this.state = answer.state;
    if (answer.whole) this.emit("reset");
    const changed = answer.entries.map((/** @type {Entry} */ entry) => this.merge(entry));
    if (changed.length) this.emit("entries", changed);
    if (Object.keys(answer.terminals).length) this.emit("terminals", answer.terminals);
    if (answer.state) this.emit("state");
  }

  /** Get the entries before the first one; return them. */
  async older() {
    const answer = await get("/api/conversation/session", {
      session: this.id, recording: this.recording, before: String(this.first),
    });
    if (this.isOver || answer.epoch !== this.epoch) return [];
    this.first = answer.first;
    return answer.entries.map((/** @type {Entry} */ entry) => this.merge(entry));
  }

  /** Forget the entries before one, which are no longer shown. @param {number} first */
  forget(first) {
    for (let id = this.first; id < first; id++) this.entries.delete(id);
    this.first = first;
  }

  /** Add an entry: of a message the server sends only the parts that have changed. @param {Entry} entry */
  merge(entry) {
    const known = this.entries.get(entry.id);
    if (entry.kind === "message" && known) {
      entry.parts = [...known.parts.slice(0, entry.from), ...entry.parts];
    }
    this.entries.set(entry.id, entry);
    return entry;
  }

  /** @param {string} name @param {any} [detail] */
  emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
