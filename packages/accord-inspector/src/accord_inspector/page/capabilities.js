// The view "Capabilities": what both sides offered in `initialize`.

import { get, live } from "./api.js";
import { fill, h, safe } from "./dom.js";
import { messageAddress, params, router, shownNumber } from "./router.js";

class CapabilitiesView extends HTMLElement {
  constructor() {
    super();
    this.body = h("div", { class: "sides" });
    /** @type {(() => void)[]} */
    this.ends = [];
  }

  connectedCallback() {
    this.replaceChildren(h("h2", null, "Capabilities"), this.body);
    const load = () => this.load();
    router.addEventListener("change", load);
    this.ends = [() => router.removeEventListener("change", load), live.on("state:capabilities", load), live.on("state:process", load)];
    load();
  }

  disconnectedCallback() {
    for (const end of this.ends) end();
  }

  async load() {
    try {
      const { sides } = await get("/api/capabilities", { recording: params().get("recording") ?? "" });
      fill(this.body, sides.length ? sides.map(side) : h("p", { class: "soft" }, "There is no initialize request yet."));
    } catch (error) {
      fill(this.body, h("p", { class: "bad" }, safe(/** @type {Error} */ (error).message)));
    }
  }
}

/** @param {any} panel */
function side(panel) {
  const title = panel.side === "agent" ? "Agent" : "Client";
  const info = panel.info ?? {};
  const name = [info.title ?? info.name, info.version].filter(Boolean).map((text) => safe(String(text))).join(" ");
  const auth = panel.auth_methods.map((/** @type {any} */ one) => safe(String(one.name ?? one.id ?? one)));
  return h("section", { "aria-label": title },
    h("h3", null, title, name && `: ${name}`),
    h("p", { class: "soft" }, `Version ${safe(JSON.stringify(panel.version) ?? "missing")}. `,
      auth.length > 0 && `Auth methods: ${auth.join(", ")}. `,
      h("a", { href: messageAddress(panel.n) }, `Message ${shownNumber(panel.n)}`)),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}: capabilities` },
      h("table", { class: "capabilities" },
        h("thead", null, h("tr", null, ["Capability", "Offered", "Meaning", "Methods"].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", null, panel.rows.map(row)))));
}

/** @param {any} one */
function row(one) {
  const isPlain = one.value === null || one.value === undefined || typeof one.value === "boolean";
  const depth = Math.min(one.path.split(".").length - 1, 4);
  return h("tr", { class: [one.offered ? "offered" : "absent", !one.known && "unknown"] },
    h("th", { scope: "row", class: `depth-${depth}` }, h("code", null, safe(one.path))),
    h("td", null, one.offered ? h("span", { class: "good" }, "yes") : h("span", { class: "soft" }, "no"), !isPlain && [" ", h("code", null, safe(JSON.stringify(one.value)))]),
    h("td", null, one.known ? one.meaning : h("b", { class: "bad" }, "Not defined by this version"), !one.known && one.meaning),
    h("td", null, one.methods.map((/** @type {string} */ name, /** @type {number} */ place) => [place ? ", " : "", h("code", null, name)])));
}

customElements.define("view-capabilities", CapabilitiesView);
