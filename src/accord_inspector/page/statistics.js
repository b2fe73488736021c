// The view "Statistics".

import { h } from "./dom.js";

class StatisticsView extends HTMLElement {
  connectedCallback() {
    this.replaceChildren(h("h2", null, "Statistics"));
  }
}

customElements.define("view-statistics", StatisticsView);
