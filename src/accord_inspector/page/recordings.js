// The view "Recordings": the recordings of a folder.

import { get } from "./api.js";
import { fill, h, safe } from "./dom.js";

class RecordingsView extends HTMLElement {
  connectedCallback() {
    this.list = h("ul", { class: "recordings" });
    this.replaceChildren(h("h2", null, "Recordings"), this.list);
    this.load();
  }

  async load() {
    const { recordings } = await get("/api/inspection");
    fill(
      this.list,
      recordings.map((item) =>
        h("li", null, h("a", { href: `/timeline?recording=${encodeURIComponent(item.name)}` }, safe(item.name))),
      ),
    );
  }
}

customElements.define("view-recordings", RecordingsView);
