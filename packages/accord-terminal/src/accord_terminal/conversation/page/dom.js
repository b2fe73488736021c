// Builds elements. Text from agents is only ever text here: nothing is parsed as HTML.

/**
 * Return a new element. `props` are attributes; `on…` are listeners, `class` may be a list, and
 * true or false sets or omits an attribute. Children are elements, texts, or lists of both.
 * @param {string} tag
 * @param {Record<string, any> | null} [props]
 * @param {...any} children
 * @returns {HTMLElement}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (name === "class") {
      element.className = Array.isArray(value) ? value.filter(Boolean).join(" ") : value;
    } else if (name === "value") {
      /** @type {any} */ (element).value = value;
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  append(element, children);
  return element;
}

/** Replace the children of an element. @param {Element} parent @param {...any} children */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/** @param {Element} parent @param {any[]} children */
function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child instanceof Node) parent.append(child);
    else if (child !== null && child !== undefined && child !== false) parent.append(String(child));
  }
}

// Characters that would reorder or hide the text around them, or that a terminal would obey.
const CONTROLS =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/**
 * Return a text in which control characters are visible: `‮` becomes `⟨U+202E⟩`.
 * @param {string} text
 */
export function safe(text) {
  return text.replace(CONTROLS, (found) => {
    const code = found.codePointAt(0) ?? 0;
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** Return a time in seconds for people. @param {number} seconds */
export function duration(seconds) {
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds < 60) return `${seconds.toPrecision(3)} s`;
  const minutes = Math.floor(seconds / 60);
  return `${minutes} min ${Math.round(seconds - 60 * minutes)} s`;
}

/** Return a size for people. @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toPrecision(3)} kB`;
  if (bytes < 1e9) return `${(bytes / 1e6).toPrecision(3)} MB`;
  return `${(bytes / 1e9).toPrecision(3)} GB`;
}

/** Return a number with separators. @param {number} value */
export function count(value) {
  return value.toLocaleString("en-US").replaceAll(",", " ");
}
