// Talks to the server: requests, and one stream of events for what changes.

const SILENT_MS = 40_000; // the server sends a sign of life every 15 s
const WAIT_MS = 1000; // before another try, doubled up to the most
const MOST_MS = 15_000;

/** An error that the server reports, with a text for the user. */
export class ApiError extends Error {
  /** @param {number} status @param {string} text */
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Return the JSON value at an address of the API. @param {string} path @param {Record<string, any>} [params] */
export async function get(path, params = {}) {
  const query = queryOf(params).toString();
  return read(await request(`${path}${query ? `?${query}` : ""}`, {}));
}

/** Send a JSON value to an address of the API. @param {string} path @param {any} [value] */
export async function post(path, value = {}) {
  return read(await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) }));
}

/** @param {string} path @param {RequestInit} options */
async function request(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new ApiError(0, "No connection to the computer: nothing was sent");
  }
}

/** @param {Response} response */
async function read(response) {
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, value.error ?? response.statusText);
  return value;
}

/** @param {Record<string, any>} params */
export function queryOf(params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== "" && value !== null && value !== undefined && value !== false) query.append(name, String(value));
  }
  return query;
}

/**
 * What the server pushes, over one stream that is opened again when it is lost or silent.
 *
 * Events: `state:NAME` when a state has changed, `connection` when it is lost or found again, and
 * `revoked` when this device may not use the page any more.
 */
class Live extends EventTarget {
  constructor() {
    super();
    /** @type {Record<string, any>} */
    this.state = {};
    this.connected = false;
    this.session = "";
    this.waitMs = WAIT_MS;
    this.timer = 0;
    this.silence = 0;
    /** @type {EventSource | null} */
    this.source = null;
    document.addEventListener("visibilitychange", () => {
      // A phone that has slept does not know that its connection is gone.
      if (document.visibilityState === "visible" && this.isWanted) this.open();
    });
    addEventListener("online", () => this.isWanted && this.open());
  }

  /** Follow the list, and a session if one is named. @param {string} session */
  follow(session) {
    if (this.isWanted && this.session === session && this.source) return;
    this.isWanted = true;
    this.session = session;
    this.open();
  }

  stop() {
    this.isWanted = false;
    this.source?.close();
    clearTimeout(this.timer);
    clearTimeout(this.silence);
  }

  open() {
    this.stop();
    this.isWanted = true;
    const query = queryOf({ session: this.session }).toString();
    const source = new EventSource(`/api/live${query ? `?${query}` : ""}`);
    this.source = source;
    this.heard();
    source.onopen = () => {
      this.waitMs = WAIT_MS;
      this.set(true);
    };
    source.onmessage = (event) => {
      this.heard();
      this.set(true);
      for (const [name, value] of Object.entries(JSON.parse(event.data))) {
        this.state[name] = value;
        this.emit(`state:${name}`, value);
      }
    };
    source.addEventListener("alive", () => this.heard());
    source.addEventListener("revoked", () => {
      this.stop();
      this.emit("revoked", null);
    });
    source.onerror = () => this.lost();
  }

  heard() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lost(), SILENT_MS);
  }

  async lost() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.silence);
    clearTimeout(this.timer);
    this.set(false);
    this.timer = setTimeout(() => this.again(), this.waitMs);
    this.waitMs = Math.min(this.waitMs * 2, MOST_MS);
  }

  async again() {
    const status = await get("/api/me").then(() => 200, (error) => error.status);
    if (status === 401) this.emit("revoked", null);
    else if (this.isWanted) this.open();
  }

  /** @param {boolean} connected */
  set(connected) {
    if (this.connected === connected) return;
    this.connected = connected;
    this.emit("connection", connected);
  }

  /** Listen; return what ends it. @param {string} name @param {(value: any) => void} listener */
  on(name, listener) {
    const call = (/** @type {any} */ event) => listener(event.detail);
    this.addEventListener(name, call);
    return () => this.removeEventListener(name, call);
  }

  /** @param {string} name @param {any} detail */
  emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

export const live = new Live();
