// A new session: agent, folder, mode and the first prompt.

import { post } from "./api.js";
import { fill, h } from "./dom.js";
import { notices } from "./notices.js";
import { go } from "./router.js";

export class NewSession {
  /** @param {any} me */
  constructor(me) {
    notices.titled("New session");
    this.problem = h("p", { class: "bad", role: "alert" });
    this.agent = /** @type {HTMLSelectElement} */ (h("select", { id: "agent", required: true }, me.agents.map((/** @type {string} */ name) => h("option", { value: name }, name))));
    this.folder = /** @type {HTMLInputElement} */ (h("input", { id: "folder", required: true, value: me.roots[0] ?? "", spellcheck: "false", autocapitalize: "off" }));
    this.mode = /** @type {HTMLInputElement} */ (h("input", { id: "mode", spellcheck: "false", autocapitalize: "off" }));
    this.text = /** @type {HTMLTextAreaElement} */ (h("textarea", { id: "text", rows: "5", required: true }));
    this.text.value = localStorage.getItem("draft new") ?? "";
    this.text.addEventListener("input", () => localStorage.setItem("draft new", this.text.value));
    this.button = /** @type {HTMLButtonElement} */ (h("button", { class: "primary" }, "Start"));
    this.element = h("form", { class: "new", "aria-label": "New session", onsubmit: (/** @type {Event} */ event) => this.submit(event) },
      h("h2", null, "New session"),
      h("label", { for: "agent" }, "Agent"), this.agent,
      h("label", { for: "folder" }, "Folder"), this.folder,
      h("small", { class: "soft" }, me.roots.length ? `Below ${me.roots.join(" or ")}` : "No folder is open for new sessions: accord web --root FOLDER"),
      h("label", { for: "mode" }, "Mode (if the agent has modes)"), this.mode,
      h("label", { for: "text" }, "What it should do"), this.text,
      this.button, this.problem);
  }

  /** @param {Event} event */
  async submit(event) {
    event.preventDefault();
    fill(this.problem);
    this.button.disabled = true;
    fill(this.button, "The agent starts…");
    try {
      const { session } = await post("/api/new", { agent: this.agent.value, folder: this.folder.value, mode: this.mode.value, text: this.text.value });
      localStorage.removeItem("draft new");
      go(`/session/${session}`);
    } catch (error) {
      fill(this.problem, error.message);
    } finally {
      this.button.disabled = false;
      fill(this.button, "Start");
    }
  }
}
