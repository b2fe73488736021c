// Beside the conversation: sessions of the agent, a new one, login, access, protocol version.

import { live, post } from "./api.js";
import { act, opened } from "./conversation_store.js";
import { fill, h } from "./dom.js";

/** The panel that opens sessions and starts the agent again. */
export class SetupPanel {
  /** @param {(text: string) => void} announce */
  constructor(announce) {
    this.announce = announce;
    this.problem = h("p", { class: "bad plain", role: "alert" });
    this.folder = /** @type {HTMLInputElement} */ (h("input", { id: "new-cwd", type: "text", autocomplete: "off", spellcheck: "false" }));
    this.servers = /** @type {HTMLTextAreaElement} */ (h("textarea", {
      id: "new-mcp", rows: "4", spellcheck: "false", placeholder: '{"mcpServers": {"name": {"command": "…", "args": []}}}',
    }));
    this.create = /** @type {HTMLButtonElement} */ (h("button", {
      class: "primary", onkeydown: (/** @type {KeyboardEvent} */ event) => this.typeAhead(event),
      onblur: () => this.isOpened && this.setOpening(false),
    }, "New session"));
    this.isOpening = false; // until its prompt is visible
    this.isOpened = false; // but its prompt is not visible yet
    this.ahead = ""; // typed while a session is opened
    this.stored = h("div", { class: "stored" });
    this.login = h("div", { class: "login" });
    this.files = select("access-files", [["", "no files"], ["ro", "read files"], ["rw", "read and write files"]]);
    this.terminals = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: "access-terminals" }));
    this.version = select("protocol", [["1,2", "the newest"], ["1", "version 1"], ["2", "version 2"]]);
    this.about = h("p", { class: "soft about" });
    this.element = h("div", { class: "setup" },
      this.about, this.problem,
      h("form", { "aria-label": "New session", onsubmit: (/** @type {Event} */ event) => this.submit(event) },
        field("Folder", this.folder),
        h("details", { "data-key": "mcp" }, h("summary", null, "MCP servers"), field("As JSON", this.servers)),
        this.create),
      this.stored, this.login,
      h("details", { "data-key": "access" }, h("summary", null, "Access and protocol"),
        h("form", { "aria-label": "Access and protocol", onsubmit: (/** @type {Event} */ event) => this.restart(event) },
          h("p", { class: "soft" }, "What the agent can use through the client, in the folders of its sessions. A process of this machine can do more by itself."),
          field("Files", this.files),
          h("div", { class: "check" }, this.terminals, h("label", { for: "access-terminals" }, "Run commands in terminals")),
          field("Protocol", this.version),
          h("button", null, "Apply: start the agent again"))));
  }

  /** Show the state of the client. @param {any} client */
  update(client) {
    const agent = client.agent;
    this.create.disabled = !agent;
    if (!agent && this.isOpened) this.setOpening(false);
    if (!this.folder.value) this.folder.value = client.cwd;
    fill(this.about, agent ? `${agent.name} ${agent.version}, protocol version ${agent.protocol}` : live.state.process?.state === "starting" ? "The agent is starting" : "The agent is not running");
    const key = JSON.stringify([agent, client.access]);
    if (key === this.shown) return;
    this.shown = key;
    this.files.value = client.access.files ?? "";
    this.terminals.checked = client.access.terminals;
    this.supports = agent?.supports ?? [];
    fill(this.stored, this.supports.includes("list_sessions") ? h("button", { type: "button", onclick: () => this.list() }, "List stored sessions") : null,
      agent && !this.supports.includes("list_sessions") && this.supports.includes("load_session") ? this.byId() : null);
    fill(this.login, agent ? this.loginButtons(agent) : null);
  }

  /** Do something, and show its error. @param {() => Promise<any>} work */
  async attempt(work) {
    fill(this.problem);
    try {
      return await work();
    } catch (error) {
      fill(this.problem, error.message);
      return undefined;
    }
  }

  /** @param {Event} event */
  async submit(event) {
    event.preventDefault();
    if (this.isOpening) return; // one key or click opens one session
    this.setOpening(true);
    const before = document.activeElement;
    const session = await this.attempt(() => act("new", { cwd: this.folder.value, mcpServers: this.servers.value }));
    this.isOpened = session !== undefined && document.activeElement === this.create;
    if (!this.isOpened) this.setOpening(false);
    if (session !== undefined) opened(this.element, session, before, () => this.takeAhead());
  }

  /** Return what was typed until now, when the prompt is visible: the next key is for the prompt. */
  takeAhead() {
    const { ahead } = this;
    this.ahead = "";
    this.setOpening(false);
    return ahead;
  }

  /** @param {boolean} isOpening */
  setOpening(isOpening) {
    this.isOpening = isOpening;
    this.isOpened = false;
    if (isOpening) this.ahead = "";
    this.create.setAttribute("aria-disabled", String(isOpening));
    fill(this.create, isOpening ? "Opening a session…" : "New session");
  }

  /** Keep what is typed until the session is open: it is the beginning of the prompt. @param {KeyboardEvent} event */
  typeAhead(event) {
    if (!this.isOpening || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.length === 1) this.ahead += event.key;
    else if (event.key === "Backspace") this.ahead = this.ahead.slice(0, -1);
    else if (event.key !== "Enter") return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {Event} event */
  async restart(event) {
    event.preventDefault();
    await this.attempt(async () => {
      await act("access", { files: this.files.value || null, terminals: this.terminals.checked });
      await post("/api/agent/restart", { versions: this.version.value.split(",").map(Number) });
      this.announce("The agent starts again");
    });
  }

  // Stored sessions.

  async list() {
    const sessions = await this.attempt(() => act("list"));
    if (!sessions) return;
    const items = sessions.map((/** @type {any} */ session) => h("li", null,
      h("span", { class: "name" }, session.label),
      h("span", { class: "soft" }, [session.updatedAt, session.cwd].filter(Boolean).join(" · ")),
      h("span", { class: "buttons" }, this.openButtons(session.id, session.cwd, session.label))));
    fill(this.stored, h("button", { type: "button", onclick: () => this.list() }, "List again"),
      items.length ? h("ul", null, items) : h("p", { class: "soft" }, "The agent has no stored sessions"));
    this.announce(`${sessions.length} stored sessions`);
  }

  byId() {
    const input = /** @type {HTMLInputElement} */ (h("input", { id: "load-id", type: "text", autocomplete: "off" }));
    return h("form", {
      "aria-label": "Load a session", onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        this.open("load", input.value, this.folder.value);
      },
    }, field("Session id", input), h("button", null, "Load"));
  }

  /** @param {string} session @param {string} cwd @param {string} label */
  openButtons(session, cwd, label) {
    const buttons = [["load", "load_session", "Load"], ["resume", "resume_session", "Resume"], ["fork", "fork_session", "Fork"]]
      .filter(([, method]) => this.supports.includes(method))
      .map(([how, , name]) => h("button", { type: "button", "aria-label": `${name} ${label}`, onclick: () => this.open(how, session, cwd) }, name));
    if (this.supports.includes("delete_session")) {
      buttons.push(h("button", {
        type: "button", "aria-label": `Delete ${label}`,
        onclick: async (/** @type {any} */ event) => {
          // A second click confirms.
          if (event.target.textContent === "Delete") event.target.textContent = "Really delete?";
          else if (await this.attempt(() => act("delete", { session }).then(() => true))) this.list();
        },
      }, "Delete"));
    }
    return buttons;
  }

  /** @param {string} how @param {string} session @param {string} cwd */
  async open(how, session, cwd) {
    const before = document.activeElement;
    const found = await this.attempt(() => act(how, { session, cwd }));
    if (found !== undefined) opened(this.element, found, before);
  }

  // Login.

  /** @param {any} agent */
  loginButtons(agent) {
    const methods = agent.authMethods.map((/** @type {any} */ method) => method.command !== null
      ? h("div", { class: "login-command" },
        h("p", null, method.name, h("span", { class: "soft" }, ": the agent asks at a terminal, which this page does not have. Run this command in one, then press Restart above.")),
        h("pre", { tabindex: "0" }, method.command),
        h("button", { type: "button", "aria-label": `Copy the command of ${method.name}`, onclick: (/** @type {any} */ event) => copy(event.target, method.command) }, "Copy"))
      : h("button", {
        type: "button", title: method.description,
        onclick: () => this.attempt(() => act("login", { method: method.id }).then(() => this.announce("Logged in"))),
      }, `Log in: ${method.name}`));
    if (this.supports.includes("logout")) {
      methods.push(h("button", { type: "button", onclick: () => this.attempt(() => act("logout").then(() => this.announce("Logged out"))) }, "Log out"));
    }
    return methods.length ? h("details", { "data-key": "login" }, h("summary", null, "Login"), methods) : null;
  }
}

/** @param {HTMLElement} button @param {string} text */
async function copy(button, text) {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
}

/** @param {string} id @param {string[][]} choices @returns {HTMLSelectElement} */
function select(id, choices) {
  return /** @type {any} */ (h("select", { id }, choices.map(([value, text]) => h("option", { value }, text))));
}

/** @param {string} label @param {HTMLElement} input */
function field(label, input) {
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input);
}
