// The line that every view shows while faults are on, with the button that ends all of them.

import { live, post } from "./api.js";
import { fill, h, safe } from "./dom.js";
import { describe } from "./faults_list.js";

class FaultsBar extends HTMLElement {
  connectedCallback() {
    this.setAttribute("role", "status");
    live.on("state:faults", () => this.draw());
    this.draw();
  }

  draw() {
    const on = (live.state.faults?.faults ?? []).filter((/** @type {any} */ one) => one.is_on);
    this.hidden = !on.length;
    if (!on.length) {
      fill(this);
      return;
    }
    const names = on.map((/** @type {any} */ one) => describe(one.fault)).join(" · ");
    fill(this,
      h("b", null, on.length === 1 ? "1 fault is on" : `${on.length} faults are on`), " ",
      h("a", { href: "/faults" }, safe(names)), " ",
      h("button", { type: "button", onclick: () => post("/api/faults/off").catch(() => {}) }, "All off"));
  }
}

customElements.define("faults-bar", FaultsBar);
