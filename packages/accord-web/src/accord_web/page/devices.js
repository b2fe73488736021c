// The devices that were paired: pair another one, and revoke one.

import { get, post } from "./api.js";
import { fill, h } from "./dom.js";
import { notices } from "./notices.js";

const ROLES = { watch: "only watch", answer: "watch, answer and cancel", full: "everything" };

export class DevicesView {
  /** @param {any} me */
  constructor(me) {
    this.me = me;
    notices.titled("Devices");
    this.problem = h("p", { class: "bad", role: "alert" });
    this.list = h("ul", { class: "devices" });
    this.code = h("div", { class: "code" });
    this.role = /** @type {HTMLSelectElement} */ (h("select", { id: "role" }, Object.entries(ROLES).map(([role, text]) => h("option", { value: role, selected: role === "answer" }, `${role}: ${text}`))));
    this.element = h("section", { class: "new", "aria-label": "Devices" }, h("h2", null, "Devices"), this.list,
      h("h2", null, "Pair another device"), h("label", { for: "role" }, "What it may do"), this.role,
      h("button", { type: "button", class: "primary", onclick: () => this.pair() }, "Show a code"), this.code, this.problem);
    this.refresh();
  }

  async refresh() {
    try {
      const { devices } = await get("/api/devices");
      fill(this.list, devices.map((/** @type {any} */ device) => h("li", null,
        h("span", null, device.name, device.number === this.me.number ? " (this one)" : ""), h("span", { class: "soft" }, `${device.role}, seen ${new Date(device.seen_at * 1000).toLocaleString()}`),
        h("button", { type: "button", "aria-label": `Revoke ${device.name}`, onclick: () => this.revoke(device.number) }, "Revoke"))));
    } catch (error) {
      fill(this.problem, error.message);
    }
  }

  async pair() {
    fill(this.problem);
    try {
      const { address, picture } = await post("/api/devices/pair", { role: this.role.value });
      fill(this.code, h("img", { src: picture, alt: "QR code of the address below", width: "220", height: "220" }), h("p", { class: "address" }, address), h("p", { class: "soft" }, "For one device, within five minutes."));
    } catch (error) {
      fill(this.problem, error.message);
    }
  }

  /** @param {number} number */
  async revoke(number) {
    try {
      await post("/api/devices/revoke", { number });
      await this.refresh();
    } catch (error) {
      fill(this.problem, error.message);
    }
  }
}
