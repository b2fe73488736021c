// The view "Capabilities".

import { h } from "./dom.js";

class CapabilitiesView extends HTMLElement {
  connectedCallback() {
    this.replaceChildren(h("h2", null, "Capabilities"));
  }
}

customElements.define("view-capabilities", CapabilitiesView);
