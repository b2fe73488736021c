// Text of a message, exactly: characters that hide or reorder text are shown as marks.

import { h } from "./dom.js";

// As in dom.js, and the line ends that only browsers have.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const NAMES = new Map([
  [0x0d, "CR"], [0x1b, "ESC"], [0x07, "BEL"], [0x08, "BS"], [0x00, "NUL"], [0x7f, "DEL"],
  [0x200b, "ZWSP"], [0x200d, "ZWJ"], [0x200e, "LRM"], [0x200f, "RLM"], [0x202a, "LRE"], [0x202b, "RLE"],
  [0x202c, "PDF"], [0x202d, "LRO"], [0x202e, "RLO"], [0x2066, "LRI"], [0x2067, "RLI"], [0x2069, "PDI"], [0xfeff, "BOM"],
]);

/**
 * Return what finds a text as the filter does: in any case, as it reads and as JSON writes it.
 * @param {string} text @returns {RegExp | null} null for an empty text
 */
export function finderOf(text) {
  if (!text) return null;
  const written = JSON.stringify(text).slice(1, -1);
  let read = text;
  try {
    read = JSON.parse(`"${text}"`);
  } catch {
    // It is not written as JSON.
  }
  const forms = [...new Set([text, written, read])].filter(Boolean);
  return new RegExp(forms.map((form) => form.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|"), "giu");
}

const MAX_MARKS = 500; // in one text

/**
 * Return a text as nodes: hidden characters are `<mark>` elements, and so is what is searched.
 * @param {string} text @param {RegExp | null} [finder]
 */
export function textNodes(text, finder = null) {
  if (!finder) return plainNodes(text);
  /** @type {any[]} */
  const nodes = [];
  let end = 0;
  let marks = 0;
  for (const found of text.matchAll(finder)) {
    nodes.push(...plainNodes(text.slice(end, found.index)), h("mark", { class: "match" }, plainNodes(found[0])));
    end = found.index + found[0].length;
    if (++marks === MAX_MARKS) break;
  }
  nodes.push(...plainNodes(text.slice(end)));
  return nodes;
}

/** @param {string} text */
function plainNodes(text) {
  /** @type {any[]} */
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > end) nodes.push(text.slice(end, found.index));
    const code = found[0].codePointAt(0) ?? 0;
    const number = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    nodes.push(h("mark", { class: "hidden-character", title: number }, NAMES.get(code) ?? number));
    end = found.index + found[0].length;
  }
  if (end < text.length) nodes.push(text.slice(end));
  return nodes;
}

/** Return how many characters of a text are hidden. @param {string} text */
export function countHidden(text) {
  return text.match(HIDDEN)?.length ?? 0;
}
