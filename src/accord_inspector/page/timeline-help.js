// The keys of the timeline, in a dialog.

import { h } from "./dom.js";

const KEYS = [
  ["j, ↓", "Next message"],
  ["k, ↑", "Previous message"],
  ["Page Up, Page Down", "One page"],
  ["Home, End", "First, last message"],
  ["Enter", "Open the message"],
  ["Escape", "Close the message"],
  ["p", "Jump to the response of a request, or back"],
  ["e, r", "Next message with an error, or with a broken rule"],
  ["f", "Follow the end"],
  ["Space", "Pause, and continue"],
  ["v", "List or sequence diagram"],
  ["/", "Filter by text"],
  ["?", "This help"],
];

/** Return a dialog that lists the keys. */
export function createHelp() {
  const dialog = /** @type {HTMLDialogElement} */ (
    h(
      "dialog",
      { class: "help", "aria-labelledby": "help-title" },
      h("h2", { id: "help-title" }, "Keys of the timeline"),
      h("table", null, h("tbody", null, KEYS.map(([key, text]) => h("tr", null, h("th", { scope: "row" }, key), h("td", null, text))))),
      h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")),
    )
  );
  return dialog;
}

/** Return a button that a key presses, too. @param {string} text @param {string} key @param {() => void} onclick */
export function keyButton(text, key, onclick) {
  return /** @type {any} */ (h("button", { type: "button", onclick, "aria-keyshortcuts": key, title: `${text}: ${key}` }, text));
}
