// The view "Process".

import { h } from "./dom.js";

class ProcessView extends HTMLElement {
  connectedCallback() {
    this.replaceChildren(h("h2", null, "Process"));
  }
}

customElements.define("view-process", ProcessView);
