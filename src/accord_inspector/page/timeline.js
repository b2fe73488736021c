// The view "Timeline": a plain list of the newest messages.

import { get, live } from "./api.js";
import { duration, fill, h, safe, size } from "./dom.js";
import { address, params, pathParts, router } from "./router.js";

class TimelineView extends HTMLElement {
  connectedCallback() {
    this.list = h("ol", { class: "rows" });
    this.detail = h("pre", { class: "raw", hidden: true });
    this.replaceChildren(h("h2", null, "Timeline"), this.list, this.detail);
    this.ends = [live.on("messages", () => this.load())];
    this.changed = () => this.show();
    router.addEventListener("change", this.changed);
    live.watch(Object.fromEntries(params()), { recording: params().get("recording") ?? "" });
    this.load();
    this.show();
  }

  disconnectedCallback() {
    for (const end of this.ends ?? []) end();
    router.removeEventListener("change", this.changed);
  }

  async load() {
    const found = await get("/api/messages", { ...Object.fromEntries(params()), from: -200, count: 200 });
    fill(this.list, found.rows.map((row) => this.row(row)));
  }

  /** @param {any} row */
  row(row) {
    const what = row.kind === "response" ? `↩ ${row.method ?? ""}` : (row.method ?? row.kind);
    return h(
      "li",
      { class: [row.kind, row.error && "error"] },
      h("a", { href: address(["timeline", row.n]) }, row.ts.toFixed(3)),
      ` ${safe(row.from)} → ${safe(row.to)} `,
      h("code", null, safe(what)),
      ` ${size(row.bytes ?? 0)} `,
      row.seconds !== undefined && row.seconds !== null && duration(row.seconds),
    );
  }

  async show() {
    const n = pathParts()[1];
    this.detail.hidden = n === undefined;
    if (n === undefined) return;
    const found = await get(`/api/messages/${n}`, { recording: params().get("recording") });
    fill(this.detail, safe(found.value === null ? found.raw : JSON.stringify(found.value, null, 2)));
  }
}

customElements.define("view-timeline", TimelineView);
