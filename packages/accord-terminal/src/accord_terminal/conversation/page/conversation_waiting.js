// The line of a prompt that has no response: for how long it waits, or that none will come.

import { fill, h } from "./dom.js";
import { messageAddress, shownNumber } from "./router.js";

const SOON_S = 2; // a prompt that waits for less is not mentioned

export class WaitingLine {
  constructor() {
    this.element = h("p", { class: "waiting warn", hidden: true });
    this.timer = 0;
    /** @type {any} */
    this.shown = null;
  }

  /** @param {{message: number, seconds: number | null} | null | undefined} waits what the server says of the oldest prompt */
  show(waits) {
    if (waits && waits === this.shown) return; // nothing was pushed since
    this.shown = waits;
    clearInterval(this.timer);
    if (!waits) {
      this.element.hidden = true;
      return;
    }
    const began = performance.now();
    const draw = () => {
      const seconds = waits.seconds === null ? null : waits.seconds + (performance.now() - began) / 1000;
      this.element.hidden = seconds !== null && seconds < SOON_S;
      const link = h("a", { href: messageAddress(waits.message) }, `#${shownNumber(waits.message)}`);
      if (seconds === null) fill(this.element, "✖ The prompt ", link, " was never answered.");
      else fill(this.element, "The prompt ", link, ` has no response yet: ${Math.floor(seconds)} s.`);
    };
    draw();
    if (waits.seconds !== null) this.timer = setInterval(draw, 1000);
  }
}
