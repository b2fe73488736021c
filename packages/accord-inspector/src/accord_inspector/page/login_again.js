// What the page asks for when its server was started again: the new token.

import { live } from "./api.js";
import { fill, h } from "./dom.js";

/** A form that is visible while a server of the same address wants its own token. */
export class LoginAgain {
  constructor() {
    this.text = /** @type {HTMLInputElement} */ (h("input", { id: "new-address", type: "text", autocomplete: "off", spellcheck: "false", placeholder: "http://127.0.0.1:…/?token=…" }));
    this.problem = h("span", { class: "bad", role: "alert" });
    this.element = h("form", { class: "problem login-again", "aria-label": "Log in again", hidden: true, onsubmit: (/** @type {Event} */ event) => this.submit(event) },
      h("label", { for: "new-address" }, "The inspector was started again, and has a new token. Open the address that it printed in another tab, or paste it here: this page continues."),
      h("span", { class: "row" }, this.text, h("button", { class: "primary" }, "Continue")), this.problem);
    live.on("connection", () => this.show());
  }

  show() {
    const wasHidden = this.element.hidden;
    this.element.hidden = live.connected || !live.isLocked;
    if (wasHidden) this.text.value = "";
    fill(this.problem);
  }

  /** @param {Event} event */
  async submit(event) {
    event.preventDefault();
    fill(this.problem);
    const given = this.text.value.trim();
    const other = URL.canParse(given) && new URL(given).origin !== location.origin;
    try {
      if (other) fill(this.problem, `This page is at ${location.origin}: open the other address in a new tab`);
      else if (!(await live.unlock(given))) fill(this.problem, "Not the token of this inspector: paste the address that it printed last");
    } catch (error) {
      fill(this.problem, /** @type {Error} */ (error).message);
    }
  }
}
