// The keys of the page: a dialog that lists them, and whether single keys do something.

import { h } from "./dom.js";

const STORED = "accord-inspector-single-keys";

const TIMELINE = [
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
];
const WATERFALL = [
  ["j, k, arrows", "Next, previous request"],
  ["Enter", "Open the message; of a session, zoom to it"],
  ["z", "Zoom to the row"],
  ["a", "All of the time"],
];
const CONVERSATION = [
  ["1 to 9", "Choose an option of the question that is visible"],
  ["Alt+P", "Go to the question"],
];

let isOn = stored();

/** Return whether letters, digits and signs do something outside of fields (WCAG 2.1.4). */
export const singleKeys = () => isOn;

/** @param {boolean} isWanted */
function setSingleKeys(isWanted) {
  isOn = isWanted;
  try {
    localStorage.setItem(STORED, isWanted ? "on" : "off");
  } catch {
    // The browser keeps nothing: it holds until the page is closed.
  }
}

function stored() {
  try {
    return localStorage.getItem(STORED) !== "off";
  } catch {
    return true;
  }
}

/** Return whether a key is for the text of a field. @param {KeyboardEvent} event */
export function isTyping(event) {
  const target = /** @type {HTMLElement} */ (event.composedPath()[0]);
  return target.isContentEditable || /^(input|textarea|select)$/.test(target.localName ?? "");
}

/** Return whether a key that is pressed alone is a shortcut now. @param {KeyboardEvent} event */
export function isShortcut(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return false;
  return !document.querySelector("dialog[open]") && (isOn || event.key.length > 1 || event.key === " ");
}

/** @type {HTMLDialogElement | undefined} */
let dialog;

/** Show the keys. @param {{ key: string, title: string }[]} views that keys open */
export function showKeys(views) {
  dialog ??= createDialog(views);
  if (!dialog.isConnected) document.body.append(dialog);
  if (!dialog.open) dialog.showModal();
}

/** @param {{ key: string, title: string }[]} views @returns {HTMLDialogElement} */
function createDialog(views) {
  const box = h("input", { type: "checkbox", id: "single-keys", checked: isOn, onchange: (/** @type {any} */ event) => setSingleKeys(event.target.checked) });
  return /** @type {any} */ (h("dialog", { class: "help", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keys"),
    h("p", { class: "single-keys" }, box, h("label", { for: "single-keys" }, " Single keys are shortcuts"),
      h("small", { class: "soft" }, "If this is off, letters, digits and signs do nothing outside of fields and of the question that has the focus.")),
    table("Views", views.map((view) => [view.key, view.title]).concat([["?", "This help"]])),
    table("Timeline", TIMELINE),
    table("Conversation", CONVERSATION),
    table("Waterfall", WATERFALL),
    h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close"))));
}

/** @param {string} title @param {string[][]} keys */
function table(title, keys) {
  return [h("h3", null, title), h("table", null, h("tbody", null, keys.map(([key, text]) =>
    h("tr", null, h("th", { scope: "row" }, key), h("td", null, text)))))];
}

/** Return a button that a key presses, too. @param {string} text @param {string} key @param {() => void} onclick */
export function keyButton(text, key, onclick) {
  return /** @type {any} */ (h("button", { type: "button", onclick, "aria-keyshortcuts": key, title: `${text}: ${key}` }, text));
}
