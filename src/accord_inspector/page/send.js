// The view "Send".

import { h } from "./dom.js";

class SendView extends HTMLElement {
  connectedCallback() {
    this.replaceChildren(h("h2", null, "Send"));
  }
}

customElements.define("view-send", SendView);
