// Any bytes as text: malformed frames, several lines, a line without an end.

import { h } from "./dom.js";

const EXAMPLES = [
  ["Not JSON", "hello", false, true],
  ["Cut off", '{"jsonrpc":"2.0","id":"inspect-raw","method":"session/new"', false, true],
  ["Without jsonrpc", '{"id":"inspect-raw","method":"session/list","params":{}}', false, true],
  ["Wrong type of params", '{"jsonrpc":"2.0","id":"inspect-raw","method":"session/prompt","params":"x"}', false, true],
  ["Response to nothing", '{"jsonrpc":"2.0","id":987654,"result":{}}', false, true],
  ["A batch", '[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]', false, true],
  ["Invalid UTF-8", '{"jsonrpc":"2.0","method":"_x","params":{"a":"\\xff"}}', true, true],
  ["Two lines", '{"jsonrpc":"2.0",\n"method":"_x"}', false, true],
  ["Without a newline", '{"jsonrpc":"2.0","id":"inspect-raw",', false, false],
];

/**
 * Return the form for raw frames; `send` gets what was entered.
 * @param {string} text @param {(entry: any) => Promise<void>} send @param {(error: any) => void} failed
 */
export function rawForm(text, send, failed) {
  const area = /** @type {HTMLTextAreaElement} */ (h("textarea", { id: "send-raw", class: "json", rows: "10", spellcheck: "false", value: text }));
  const escapes = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: "send-escapes" }));
  const newline = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: "send-newline", checked: true }));
  const example = h("select", { id: "send-example", onchange: (/** @type {any} */ event) => {
    const chosen = EXAMPLES[Number(event.target.value)];
    if (!chosen) return;
    area.value = String(chosen[1]);
    escapes.checked = Boolean(chosen[2]);
    newline.checked = Boolean(chosen[3]);
  } }, h("option", { value: "" }, "Choose…"), EXAMPLES.map(([name], place) => h("option", { value: place }, name)));
  const press = () => send({ raw: area.value, escapes: escapes.checked, newline: newline.checked }).catch(failed);
  return [
    h("p", { class: "soft" }, "The text is sent as it is. A request whose id begins with inspect- is answered here, not to the client."),
    h("label", { class: "labelled" }, h("span", null, "Example"), example),
    h("h3", null, h("label", { for: "send-raw" }, "Frame")),
    area,
    h("div", { class: "actions" },
      h("label", null, escapes, " Replace \\n, \\t, \\0, \\\\, \\xHH and \\uHHHH"),
      h("label", null, newline, " End with a newline"),
      h("button", { type: "button", class: "primary", onclick: press }, "Send")),
  ];
}
