// The input of prompts: text with completion of commands, and attachments.

import { act } from "./conversation_store.js";
import { fill, h, size } from "./dom.js";

const MAX_FILE_BYTES = 8 * 1024 * 1024; // as the server accepts
const MAX_FILES = 20;
const MAX_SHOWN = 50; // commands

// Prompts that were not sent, by session: the view may be left, and the page loaded again.
const drafts = {
  /** @param {string} session */
  get: (session) => localStorage.getItem(`draft ${session}`) ?? undefined,
  /** @param {string} session @param {string} text */
  set: (session, text) => {
    try {
      localStorage.setItem(`draft ${session}`, text);
    } catch {
      // the storage is full: the text stays in its field
    }
  },
  /** @param {string} session */
  delete: (session) => localStorage.removeItem(`draft ${session}`),
};

export class PromptInput {
  /** @param {string} session @param {(text: string) => void} announce @param {() => void} sent called after a prompt */
  constructor(session, announce, sent) {
    this.session = session;
    this.sent = sent;
    this.announce = announce;
    /** @type {any[]} */
    this.commands = [];
    /** @type {any[]} files as the server takes them, with `label` */
    this.files = [];
    this.problem = h("p", { class: "bad", role: "alert" });
    this.notice = h("p", { class: "soft said", role: "status", hidden: true });
    this.canSteer = false;
    this.hint = h("span", { class: "hint soft" });
    this.chips = h("ul", { class: "chips", "aria-label": "Attachments", hidden: true });
    this.list = h("ul", { class: "completion", role: "listbox", id: "commands", "aria-label": "Commands", tabindex: "0", hidden: true });
    this.text = /** @type {HTMLTextAreaElement} */ (h("textarea", {
      class: "prompt", rows: "2", "aria-label": "Prompt", placeholder: "Write to the agent", spellcheck: "true",
      "aria-autocomplete": "list", "aria-controls": "commands",
      oninput: () => {
        this.keep();
        this.complete();
      }, onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onblur: () => this.close(), onpaste: (/** @type {ClipboardEvent} */ event) => this.paste(event),
    }));
    this.picker = /** @type {HTMLInputElement} */ (h("input", {
      type: "file", multiple: true, hidden: true, "aria-label": "Files to attach",
      onchange: async () => {
        await this.attach([...(this.picker.files ?? [])]);
        this.picker.value = "";
      },
    }));
    this.path = /** @type {HTMLInputElement} */ (h("input", {
      type: "text", class: "path", placeholder: "path in the folder of the session", "aria-label": "Path of a file to link", hidden: true,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.pathKey(event),
    }));
    this.send = /** @type {HTMLButtonElement} */ (h("button", { type: "submit", class: "primary" }, "Send"));
    this.cancel = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: "cancel", onclick: () => this.stop() }, "Cancel the turn"));
    this.element = h("form", {
      class: "composer", "aria-label": "Prompt",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        this.submit();
      },
    },
      this.problem, this.notice, this.list, this.chips, this.text,
      h("div", { class: "tools" },
        h("button", { type: "button", onclick: () => this.picker.click() }, "Attach a file"), this.picker,
        h("button", { type: "button", onclick: () => this.togglePath() }, "Link a path"), this.path,
        this.hint,
        this.cancel, this.send));
    this.setRunning(false);
    this.text.value = drafts.get(session) ?? "";
  }

  /** Begin the prompt with a text that was typed before it was there. @param {string} text */
  begin(text) {
    if (text && !this.text.value) this.text.value = text;
    this.keep();
  }

  keep() {
    if (this.text.value) drafts.set(this.session, this.text.value);
    else drafts.delete(this.session);
  }

  /** @param {boolean} isRunning */
  setRunning(isRunning) {
    if (this.isRunning && !isRunning) this.tell("");
    this.isRunning = isRunning;
    this.cancel.hidden = !isRunning;
    // While a turn runs, a message goes into it, or waits for its end.
    const [verb, hint] = !isRunning ? ["Send", "Enter sends"] : this.canSteer ? ["Steer", "Enter steers the running turn"] : ["Queue", "Enter sends after the turn"];
    this.send.textContent = verb;
    this.hint.textContent = `${hint}, Shift+Enter starts a line, / lists commands`;
    this.send.disabled = Boolean(this.isSending);
  }

  async submit() {
    const text = this.text.value;
    if (this.isSending || !(text.trim() || this.files.length)) return;
    const files = this.files.map(({ label, ...file }) => file);
    const steers = this.isRunning;
    fill(this.problem);
    this.isSending = true;
    this.setRunning(true);
    try {
      const said = await act(steers ? "steer" : "prompt", { session: this.session, text, files });
      if (steers) this.tell(saidText(said));
      if (this.text.value === text) this.text.value = "";
      this.keep();
      this.files = [];
      this.showFiles();
      this.sent();
    } catch (error) {
      fill(this.problem, error.message);
      if (!steers) this.isRunning = false;
    } finally {
      this.isSending = false;
      this.setRunning(Boolean(this.isRunning));
    }
  }

  /** Show what has become of a message in the running turn. @param {string} text */
  tell(text) {
    this.notice.hidden = !text;
    fill(this.notice, text);
  }

  async stop() {
    try {
      await act("cancel", { session: this.session });
      this.announce("Cancelling the turn");
    } catch (error) {
      fill(this.problem, error.message);
    }
  }

  // Attachments.

  /** @param {ClipboardEvent} event */
  paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.attach(files);
  }

  /** @param {File[]} files */
  async attach(files) {
    fill(this.problem);
    for (const file of files) {
      if (file.size > MAX_FILE_BYTES || this.files.length >= MAX_FILES) {
        fill(this.problem, file.size > MAX_FILE_BYTES ? `${file.name} exceeds ${size(MAX_FILE_BYTES)}` : `At most ${MAX_FILES} files`);
        continue;
      }
      this.files.push({ name: file.name, mime: file.type, data: await base64(file), label: `${file.name}, ${size(file.size)}` });
    }
    this.showFiles();
  }

  togglePath() {
    this.path.hidden = !this.path.hidden;
    if (!this.path.hidden) this.path.focus();
  }

  /** @param {KeyboardEvent} event */
  pathKey(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (this.path.value) this.files.push({ path: this.path.value, label: this.path.value });
    this.path.value = "";
    this.path.hidden = true;
    this.showFiles();
    this.text.focus();
  }

  showFiles() {
    this.chips.hidden = !this.files.length;
    fill(this.chips, this.files.map((file, number) => h("li", null, file.label, " ", h("button", {
      type: "button", "aria-label": `Remove ${file.label}`,
      onclick: () => {
        this.files.splice(number, 1);
        this.showFiles();
      },
    }, "×"))));
  }

  // Commands.

  complete() {
    const typed = /^\/(\S*)$/.exec(this.text.value)?.[1]?.toLowerCase();
    const found = typed === undefined ? [] : this.commands.filter((command) => command.name.toLowerCase().includes(typed)).slice(0, MAX_SHOWN);
    fill(this.list, found.map((command, number) => h("li", {
      role: "option", id: `command-${number}`, "aria-selected": "false",
      onpointerdown: (/** @type {Event} */ event) => {
        event.preventDefault();
        this.choose(number);
      },
    }, h("code", null, `/${command.name}`), " ", h("span", { class: "soft" }, command.description))));
    this.found = found;
    this.list.hidden = !found.length;
    if (found.length) this.announce(`${found.length} commands`);
    this.select(found.length ? 0 : -1);
  }

  /** @param {number} number */
  select(number) {
    this.selected = number;
    for (const [at, item] of [...this.list.children].entries()) {
      item.setAttribute("aria-selected", String(at === number));
      if (at === number) item.scrollIntoView({ block: "nearest" });
    }
    if (number >= 0) this.text.setAttribute("aria-activedescendant", `command-${number}`);
    else this.text.removeAttribute("aria-activedescendant");
  }

  /** @param {number} number */
  choose(number) {
    const command = this.found?.[number];
    if (!command) return;
    this.text.value = `/${command.name} `;
    this.close();
    this.text.focus();
    if (command.hint) this.announce(command.hint);
  }

  close() {
    this.list.hidden = true;
    this.select(-1);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.isComposing) return;
    const count = this.list.hidden ? 0 : this.list.children.length;
    if (count && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      this.select((Number(this.selected) + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
    } else if (count && (event.key === "Enter" || event.key === "Tab") && !event.shiftKey) {
      event.preventDefault();
      this.choose(Number(this.selected));
    } else if (count && event.key === "Escape") {
      this.close();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.submit();
    }
  }
}

/** Return what has become of a message that was said while a turn ran. @param {{outcome: string, by: string, reason: string}} said */
function saidText({ outcome, by, reason }) {
  if (outcome === "injected") return "The agent has it in the running turn.";
  if (outcome === "started") return `The agent works on it in a turn of its own: ${reason}.`;
  return `Queued ${by === "agent" ? "by the agent" : "here"}, it follows the running turn: ${reason}.`;
}

/** @param {File} file @returns {Promise<string>} */
function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
