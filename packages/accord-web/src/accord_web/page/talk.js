// A session: the conversation of the inspector, with the questions to this device.

import { live } from "./api.js";
import { QuestionCards } from "./conversation_questions.js";
import { SessionView } from "./conversation_session.js";
import { act } from "./conversation_store.js";
import { fill, h } from "./dom.js";
import { notices } from "./notices.js";
import { shownSession } from "./router.js";

class TalkView extends HTMLElement {
  connectedCallback() {
    this.shown = shownSession();
    this.status = h("div", { class: "visually-hidden", role: "status" });
    const announce = (/** @type {string} */ text) => fill(/** @type {HTMLElement} */ (this.status), text);
    this.session = new SessionView(this.shown, "", announce);
    this.questions = new QuestionCards(announce, this.session.entries.terminals);
    this.about = h("p", { class: "about soft" });
    this.queue = h("ul", { class: "queue", "aria-label": "Prompts that wait", hidden: true });
    this.problem = h("p", { class: "bad", role: "alert" });
    const middle = h("div", { class: "middle" }, this.session.element);
    this.replaceChildren(h("h2", { class: "visually-hidden" }, "Conversation"), this.status,
      h("div", { class: "talk" }, h("div", { class: "upper" }, h("div", { class: "trouble-line" }, this.about, this.problem, this.queue), middle), this.questions.element));
    this.stop = live.on("state:conversation", (value) => this.update(value));
    const known = live.state.conversation;
    if (known?.session === this.main) this.update(known);
    this.session.refresh();
  }

  disconnectedCallback() {
    this.stop?.();
    this.session?.end();
  }

  /** The id of the session itself, also if one of its subagents is shown. */
  get main() {
    return (this.shown ?? "").split("/")[0];
  }

  /** @param {any} value */
  update(value) {
    if (value.session !== this.main || !this.session) return;
    fill(/** @type {HTMLElement} */ (this.problem), value.error ?? value.problem ?? "");
    if (value.error) return;
    notices.titled(value.title);
    const others = value.clients.length ? ` · open in ${value.clients.join(", ")}` : "";
    fill(/** @type {HTMLElement} */ (this.about), `${value.agent}${others}`);
    const isMain = this.shown === this.main;
    this.session.update(value.listed, isMain && value.role === "full", value.client);
    if (!isMain) this.session.refresh();
    if (value.role === "answer" && value.client.running) this.showCancel();
    else this.cancel?.remove();
    const list = /** @type {HTMLElement} */ (this.queue);
    list.hidden = !value.queue.length;
    fill(list, value.queue.map((/** @type {any} */ prompt) => h("li", null, h("span", { class: "soft" }, `Waits (${prompt.by}): `), prompt.text, " ",
      value.role === "full" ? h("button", { type: "button", onclick: () => this.attempt("withdraw", { prompt: prompt.id }) }, "Remove") : null)));
    const cards = /** @type {QuestionCards} */ (this.questions);
    cards.terminals = this.session.entries.terminals;
    cards.show(value.questions, this.main);
  }

  /** A device that only answers can cancel, too. */
  showCancel() {
    this.cancel ??= h("button", { type: "button", class: "cancel", onclick: () => this.attempt("cancel") }, "Cancel the turn");
    if (!this.cancel.isConnected) this.about?.append(" ", this.cancel);
  }

  /** @param {string} action @param {Record<string, any>} [body] */
  async attempt(action, body = {}) {
    try {
      await act(action, { session: this.main, ...body });
    } catch (error) {
      fill(/** @type {HTMLElement} */ (this.problem), error.message);
    }
  }
}

customElements.define("view-conversation", TalkView);
