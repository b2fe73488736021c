// The view "Conversation".

import { h } from "./dom.js";

class ConversationView extends HTMLElement {
  connectedCallback() {
    this.replaceChildren(h("h2", null, "Conversation"));
  }
}

customElements.define("view-conversation", ConversationView);
