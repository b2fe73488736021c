// A JSON value as a tree: opened and closed by keyboard, with problems marked in place.

import { count, h } from "./dom.js";
import { textNodes } from "./message-text.js";

const LONG = 240; // characters of a string before it is folded
const CHUNK = 100; // members that are shown at once
const OPEN_DEPTH = 6; // levels that are open at the start
const OPEN_ITEMS = 40; // lists with more items are closed at the start
const MAX_SHOWN = 200_000; // characters of a string that are shown; the copy has all
const AROUND = 120; // characters before and after what is searched, in a long string
const MAX_DEPTH = 200; // levels that are searched
const KEY = 100; // characters of a key in a path, as in the explanation

/** @typedef {{path: string, what: string, expected: string, got: string, rule: string}} Problem */

/** A tree of a value; `onfocus` gets the path of the item that has the focus or the pointer. */
export class JsonTree {
  /**
   * @param {any} value
   * @param {{problems?: Problem[], onfocus?: (path: string) => void, finder?: RegExp | null}} [options]
   *   what `finder` finds is marked, and the first place of it is open
   */
  constructor(value, { problems = [], onfocus = () => {}, finder = null } = {}) {
    this.problems = problems;
    this.finder = finder;
    /** @type {(string | number)[] | null} the keys to the first place */
    this.place = finder ? placeOf(value, finder, MAX_DEPTH) : null;
    this.onfocus = onfocus;
    this.element = h("ul", { class: "json-tree", role: "tree", "aria-label": "Message" });
    this.element.append(this.item(null, value, "$", 1, this.place));
    this.element.querySelector("[role=treeitem]")?.setAttribute("tabindex", "0");
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => this.clicked(event));
    this.element.addEventListener("pointerover", (event) => this.over(event));
    this.element.addEventListener("focusin", (event) => this.over(event));
  }

  /** Set the focus to the item of a path. @param {string} path */
  focusPath(path) {
    const all = [...this.element.querySelectorAll("[role=treeitem]")];
    const found = all.find((item) => /** @type {any} */ (item).dataset.path === path);
    if (found) this.focus(found);
  }

  /**
   * @param {string | number | null} key @param {any} value @param {string} path @param {number} level
   * @param {(string | number)[] | null} place the keys from here to the first place of what is searched
   */
  item(key, value, path, level, place) {
    const isBranch = value !== null && typeof value === "object";
    const own = this.problems.filter((one) => one.path === path);
    const item = h("li", { role: "treeitem", tabindex: "-1", "aria-level": level, class: own.length ? "wrong" : "" });
    item.dataset.path = path;
    const line = h("div", { class: "line" });
    if (key !== null) line.append(h("span", { class: typeof key === "number" ? "index" : "key" }, textNodes(String(key), this.finder)), ": ");
    item.append(line);
    if (isBranch) this.branch(item, line, value, path, level, place);
    else line.append(leaf(value, this.finder));
    for (const one of own) line.append(problemText(one));
    return item;
  }

  /**
   * @param {HTMLElement} item @param {HTMLElement} line @param {any} value @param {string} path
   * @param {number} level @param {(string | number)[] | null} place
   */
  branch(item, line, value, path, level, place) {
    const isList = Array.isArray(value);
    const keys = isList ? [...value.keys()] : Object.keys(value);
    const missing = this.problems.filter((one) => one.what === "missing" && parentOf(one.path) === path);
    const summary = isList ? `[${count(keys.length)}]` : `{${count(keys.length)}}`;
    line.append(h("span", { class: "twisty", "aria-hidden": "true" }), h("span", { class: "size" }, summary));
    if (!keys.length && !missing.length) return;
    const group = h("ul", { role: "group" });
    let filled = false;
    const within = place?.length ? place : null;
    const child = (/** @type {string | number} */ key) =>
      this.item(key, value[key], pathOf(path, key), level + 1, within && within[0] === key ? within.slice(1) : null);
    const start = within ? Math.floor(keys.indexOf(/** @type {never} */ (within[0])) / CHUNK) * CHUNK : 0;
    const fill = (/** @type {number} */ from) => {
      if (from === start && start > 0) group.append(moreButton(start, () => group.prepend(...keys.slice(0, start).map(child)), "are before"));
      group.append(...keys.slice(from, from + CHUNK).map(child));
      if (keys.length > from + CHUNK) group.append(moreButton(keys.length - from - CHUNK, () => fill(from + CHUNK)));
      else for (const one of missing) group.append(this.missing(one, level + 1));
    };
    /** @type {any} */ (item).setOpen = (/** @type {boolean} */ isOpen) => {
      if (isOpen && !filled) {
        filled = true;
        fill(start);
      }
      group.hidden = !isOpen;
      item.setAttribute("aria-expanded", String(isOpen));
    };
    item.append(group);
    const isWrong = this.problems.some((one) => one.path.startsWith(path) && one.path !== path);
    /** @type {any} */ (item).setOpen(isWrong || within !== null || level === 1 || (level <= OPEN_DEPTH && keys.length <= OPEN_ITEMS));
  }

  /** @param {Problem} problem @param {number} level */
  missing(problem, level) {
    const item = h("li", { role: "treeitem", tabindex: "-1", "aria-level": level, class: "wrong absent" });
    item.dataset.path = problem.path;
    const key = problem.path.slice(problem.path.lastIndexOf(".") + 1);
    item.append(h("div", { class: "line" }, h("span", { class: "key" }, textNodes(key)), ": ", problemText(problem)));
    return item;
  }

  /** The items that are visible, in order. */
  visible() {
    const all = /** @type {HTMLElement[]} */ ([...this.element.querySelectorAll("[role=treeitem]")]);
    return all.filter((item) => !item.parentElement?.closest("[hidden]"));
  }

  /** @param {Element} item */
  focus(item) {
    for (const one of this.element.querySelectorAll("[tabindex='0'][role=treeitem]")) one.setAttribute("tabindex", "-1");
    item.setAttribute("tabindex", "0");
    /** @type {HTMLElement} */ (item).focus();
  }

  /** @param {Event} event */
  over(event) {
    const item = itemOf(event);
    if (item) this.onfocus(item.dataset.path ?? "");
  }

  /** @param {Event} event */
  clicked(event) {
    const item = itemOf(event);
    const target = /** @type {HTMLElement} */ (event.target);
    if (!item || target.closest("button, a")) return;
    this.focus(item);
    if (target.closest(".line")?.parentElement === item) toggle(item);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const item = itemOf(event);
    if (!item || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = this.visible();
    const at = all.indexOf(item);
    const isOpen = item.getAttribute("aria-expanded");
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowDown: () => this.focus(all[Math.min(at + 1, all.length - 1)]),
      ArrowUp: () => this.focus(all[Math.max(at - 1, 0)]),
      Home: () => this.focus(all[0]),
      End: () => this.focus(all[all.length - 1]),
      ArrowRight: () => (isOpen === "false" ? toggle(item) : isOpen === "true" && this.focus(all[at + 1])),
      ArrowLeft: () => {
        if (isOpen === "true") toggle(item);
        else this.focus(item.parentElement?.closest("[role=treeitem]") ?? item);
      },
      Enter: () => {
        toggle(item);
        /** @type {any} */ (item.querySelector(":scope > .line button"))?.click();
      },
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }
}

/** Return the path of a member. @param {string} path @param {string | number} key */
function pathOf(path, key) {
  if (typeof key === "number") return `${path}[${key}]`;
  return `${path}.${key.length <= KEY ? key : `${key.slice(0, KEY - 1)}…`}`;
}

/** @param {string} path */
function parentOf(path) {
  return path.slice(0, path.lastIndexOf("."));
}

/** @param {Event} event */
function itemOf(event) {
  return /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (event.target).closest("[role=treeitem]"));
}

/** @param {HTMLElement} item */
function toggle(item) {
  /** @type {any} */ (item).setOpen?.(item.getAttribute("aria-expanded") !== "true");
}

/** @param {Problem} problem */
function problemText(problem) {
  const what = problem.what === "missing" ? `missing: expected ${problem.expected}` : `expected ${problem.expected}, got ${problem.got}`;
  return h("span", { class: "wrong-text" }, ` ✖ ${what} `, h("small", null, `(${problem.rule})`));
}

/**
 * Return the keys to the first place of a value that has what is searched, or null.
 * @param {any} value @param {RegExp} finder @param {number} depth @returns {(string | number)[] | null}
 */
function placeOf(value, finder, depth) {
  const has = (/** @type {any} */ text) => String(text).search(finder) >= 0;
  if (value === null || typeof value !== "object") return has(value) ? [] : null;
  if (depth === 0) return null;
  const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
  for (const key of keys) {
    const inner = typeof key === "string" && has(key) ? [] : placeOf(value[/** @type {never} */ (key)], finder, depth - 1);
    if (inner) return [key, ...inner];
  }
  return null;
}

/** @param {any} value @param {RegExp | null} finder */
function leaf(value, finder) {
  const kind = value === null ? "null" : typeof value;
  if (kind !== "string") return h("span", { class: `value ${kind}` }, textNodes(String(value), finder));
  const found = finder ? value.search(finder) : -1;
  const first = found < AROUND || value.length <= LONG ? 0 : found - AROUND;
  const span = h("span", { class: "value string" });
  const show = (/** @type {boolean} */ isLong) => {
    const start = Math.max(0, Math.min(first - MAX_SHOWN / 2, value.length - MAX_SHOWN));
    const [from, to] = isLong || value.length <= LONG ? [start, start + MAX_SHOWN] : [first, Math.max(first + LONG, found < 0 ? 0 : found + AROUND)];
    const text = value.slice(from, to);
    span.replaceChildren(from > 0 ? "…" : '"', ...textNodes(text, finder), to < value.length ? "…" : '"');
    if (value.length <= LONG) return;
    const some = value.length > MAX_SHOWN ? `${count(MAX_SHOWN)} of` : "all";
    const label = isLong ? "Fold" : `Show ${some} ${count(value.length)} characters`;
    span.append(" ", h("button", { type: "button", class: "fold", onclick: () => show(!isLong) }, label));
  };
  show(false);
  return span;
}

/** @param {number} rest @param {() => void} onclick @param {string} [where] */
function moreButton(rest, onclick, where = "are left") {
  const item = h("li", { role: "none", class: "more" });
  item.append(h("button", { type: "button", onclick: () => { item.remove(); onclick(); } }, `Show more: ${count(rest)} ${where}`));
  return item;
}
