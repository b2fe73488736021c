// Pairing: the code of the address makes this browser a device with a name.

import { post } from "./api.js";
import { fill, h } from "./dom.js";

export class PairView {
  /** @param {string} code */
  constructor(code) {
    this.code = code;
    this.problem = h("p", { class: "bad", role: "alert" });
    this.name = /** @type {HTMLInputElement} */ (h("input", { id: "name", required: true, maxlength: "40", value: deviceName(), autocomplete: "off" }));
    this.button = /** @type {HTMLButtonElement} */ (h("button", { class: "primary" }, "Pair this device"));
    this.element = h("main", null,
      h("h1", null, "Pair this device"),
      h("p", null, "It will see the coding agents on the computer, and can answer them."),
      h("form", { class: "pair", onsubmit: (/** @type {Event} */ event) => this.submit(event) },
        h("label", { for: "name" }, "Name of this device, as others see it"), this.name, this.button),
      this.problem);
  }

  /** @param {Event} event */
  async submit(event) {
    event.preventDefault();
    fill(this.problem);
    this.button.disabled = true;
    try {
      await post("/api/pair", { code: this.code, name: this.name.value });
      location.replace("/");
    } catch (error) {
      fill(this.problem, error.message);
      this.button.disabled = false;
    }
  }
}

export function unpaired() {
  return h("main", null,
    h("h1", null, "This browser is not paired"),
    h("p", null, "On the computer, type ", h("code", null, "accord web pair"), ", and open the address that it prints, or scan its code. An address pairs one device, within five minutes."));
}

function deviceName() {
  const { userAgent } = navigator;
  const names = [["iPhone", "iPhone"], ["iPad", "iPad"], ["Android", "Android phone"], ["Macintosh", "Mac"], ["Windows", "Windows"], ["Linux", "Linux"]];
  return names.find(([word]) => userAgent.includes(word))?.[1] ?? "Browser";
}
