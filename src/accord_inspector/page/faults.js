// The view "Faults".

import { h } from "./dom.js";

class FaultsView extends HTMLElement {
  connectedCallback() {
    this.replaceChildren(h("h2", null, "Faults"));
  }
}

customElements.define("view-faults", FaultsView);
