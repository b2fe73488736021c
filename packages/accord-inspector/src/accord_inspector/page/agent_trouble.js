// What is wrong with the agent, and what to do: `<agent-trouble>` above the conversation.

import { live } from "./api.js";
import { fill, h, safe } from "./dom.js";
import { address } from "./router.js";

class AgentTrouble extends HTMLElement {
  connectedCallback() {
    this.hidden = true; // a recording has no process
    this.end = live.on("state:process", () => this.show());
    this.show();
  }

  disconnectedCallback() {
    this.end?.();
  }

  show() {
    const trouble = live.state.process?.trouble;
    const key = JSON.stringify(trouble);
    if (key === this.shown) return;
    this.shown = key;
    this.hidden = !trouble;
    if (!trouble) return;
    const lines = trouble.stderr.map((/** @type {string} */ line) => safe(line)).join("\n");
    fill(this,
      h("p", { class: "what" }, trouble.text ? `Agent ${live.state.process.state}: ${safe(trouble.text)}` : null),
      h("p", { class: "what" }, safe(trouble.lines)),
      lines ? [h("p", null, "The last lines of its stderr:"), h("pre", { tabindex: "0" }, lines)] : null,
      h("ul", null, trouble.advice.map((/** @type {string} */ text) => h("li", null, text)),
        h("li", null, h("a", { href: address(["process"]) }, "Process"), " shows its command and its stderr, ",
          h("a", { href: address(["timeline"]) }, "Timeline"), " what it has sent.")));
  }
}

customElements.define("agent-trouble", AgentTrouble);
