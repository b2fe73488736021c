// Talks to the server: requests, and one WebSocket for what changes.

/** An error that the server reports, with a text for the user. */
export class ApiError extends Error {
  /** @param {number} status @param {string} text */
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/**
 * Return the JSON value at an address of the API. Parameters that are empty are omitted; lists are
 * repeated.
 * @param {string} path @param {Record<string, any>} [params] @param {AbortSignal} [signal]
 */
export async function get(path, params = {}, signal) {
  const query = queryOf(params).toString();
  return read(await request(`${path}${query ? `?${query}` : ""}`, { signal }));
}

/** Send a JSON value, or a file, to an address of the API. @param {string} path @param {any} [value] */
export async function post(path, value = {}) {
  return read(
    await request(path, {
      method: "POST",
      headers: { "Content-Type": value instanceof Blob ? "application/octet-stream" : "application/json" },
      body: value instanceof Blob ? value : JSON.stringify(value),
    }),
  );
}

/** @param {string} path @param {RequestInit} options */
async function request(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (/** @type {any} */ (error).name === "AbortError") throw error;
    throw new ApiError(0, "The inspector does not respond: it has ended");
  }
}

/** @param {Response} response */
async function read(response) {
  let value;
  try {
    value = await response.json();
  } catch (error) {
    if (/** @type {any} */ (error).name === "AbortError") throw error; // while the body was read
    value = {};
  }
  if (!response.ok) throw new ApiError(response.status, value.error ?? response.statusText);
  return value;
}

/** @param {Record<string, any>} params */
export function queryOf(params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== "" && item !== null && item !== undefined && item !== false) {
        query.append(name, item === true ? "1" : String(item));
      }
    }
  }
  return query;
}

/**
 * What the server pushes, over one WebSocket that is opened again when it is lost.
 *
 * Events: `state:NAME` when a state has changed (`live.state[NAME]` is its value), `event:NAME`
 * for each event, `messages` for new counts and rows of what is watched, `dropped` with the number
 * of events that this page was too slow for, and `connection` when it is lost or found again.
 */
class Live extends EventTarget {
  constructor() {
    super();
    /** @type {Record<string, any>} */
    this.state = {};
    this.connected = false;
    /** @type {any} the newest counts of what is watched */
    this.messages = null;
    /** @type {WebSocket | null} */
    this.socket = null;
    /** @type {any} */
    this.watched = null;
    this.watches = 0; // how often something else was watched
    this.waitMs = 0;
    this.isLocked = false; // whether a server responds that wants its own token
    this.timer = 0;
  }

  /** Connect, and stay connected. */
  start() {
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return; // it is being connected, or is connected
    this.socket = new WebSocket(`${location.origin.replace("http", "ws")}/api/live`);
    this.socket.onopen = () => {
      this.waitMs = 0;
      this.connected = true;
      this.send();
      this.emit("connection", true);
    };
    this.socket.onmessage = (event) => this.received(JSON.parse(event.data));
    this.socket.onclose = () => {
      if (this.connected) {
        this.connected = false;
        this.emit("connection", false);
      }
      this.waitMs = Math.min(this.waitMs * 2 + 250, 5000);
      this.timer = setTimeout(() => this.look(), this.waitMs);
    };
  }

  /** Connect if the server responds to this page; else look again later. */
  async look() {
    clearTimeout(this.timer);
    const status = await get("/api/inspection").then(() => 200, (error) => error.status);
    if (this.isLocked !== (status === 401)) {
      this.isLocked = status === 401;
      this.emit("connection", false);
    }
    if (status === 200) return this.start();
    this.waitMs = Math.min(this.waitMs * 2 + 250, 2000);
    this.timer = setTimeout(() => this.look(), this.waitMs);
  }

  /**
   * Log in to a server that was started again; return whether it took the token.
   * @param {string} text the address that it has printed, or its token
   */
  async unlock(text) {
    const token = /[?&]token=([\w-]+)/.exec(text)?.[1] ?? text.trim();
    const response = await request(`/?${queryOf({ token })}`, {});
    if (response.ok) await this.look();
    return response.ok;
  }

  /**
   * Watch the messages that a filter selects; with `rows`, the newest ones are passed.
   * @param {Record<string, any>} filter @param {{recording?: string, rows?: boolean}} [options]
   */
  watch(filter, { recording = "", rows = false } = {}) {
    this.watches += 1;
    this.watched = { watch: filter, recording, rows, number: this.watches };
    this.messages = null;
    this.send();
  }

  /** Listen; return what ends it. @param {string} name @param {(value: any) => void} listener */
  on(name, listener) {
    const call = (/** @type {any} */ event) => listener(event.detail);
    this.addEventListener(name, call);
    return () => this.removeEventListener(name, call);
  }

  send() {
    // The server waits for a first message, also if nothing is watched.
    if (this.connected) this.socket?.send(JSON.stringify(this.watched ?? {}));
  }

  /** @param {any} message */
  received(message) {
    for (const [name, value] of Object.entries(message.state ?? {})) {
      this.state[name] = value;
      this.emit(`state:${name}`, value);
    }
    for (const [name, value] of message.events ?? []) this.emit(`event:${name}`, value);
    if (message.dropped) this.emit("dropped", message.dropped);
    // Counts of what was watched before may still be under way.
    if (message.messages?.watch === this.watches) {
      this.messages = message.messages;
      this.emit("messages", message.messages);
    }
  }

  /** @param {string} name @param {any} detail */
  emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

export const live = new Live();
