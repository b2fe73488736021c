// The keys of the timeline. `keys.js` lists them.

import { isShortcut, isTyping } from "./keys.js";

/**
 * Do what a key means in the timeline.
 * @param {any} view the timeline
 * @param {KeyboardEvent} event
 */
export function handleKey(view, event) {
  const target = /** @type {HTMLElement} */ (event.composedPath()[0]);
  if (event.key === "Escape" && isTyping(event) && view.contains(target)) {
    view.list.element.focus();
    return;
  }
  if (!isShortcut(event)) return;
  const action = anywhere(view)[event.key] ?? (isElsewhere(view, target) ? undefined : inList(view)[event.key]);
  if (!action) return;
  event.preventDefault();
  // One after the other, also if a row has to be fetched: keys may be pressed faster.
  working = working.then(action).then(() => view.jumps.located).catch(() => {});
}

let working = Promise.resolve();

/** Return whether an element uses keys itself. @param {any} view @param {HTMLElement} target */
function isElsewhere(view, target) {
  return view.message.contains(target) || /^(button|a|summary)$/.test(target.localName);
}

/** @param {any} view @returns {Record<string, () => any>} */
function anywhere(view) {
  return {
    "/": () => view.filterBar.focus(),
    Escape: () => view.goTo(null),
    j: () => view.activate(view.list.active + 1),
    k: () => view.activate(view.list.active - 1),
    p: () => view.jumps.pair(),
    e: () => view.jumps.next({ errors: "1" }, "error"),
    r: () => view.jumps.next({ rule: "any" }, "broken rule"),
    f: () => view.follow(!view.isFollowing),
    v: () => view.switchView(),
  };
}

/** @param {any} view @returns {Record<string, () => any>} */
function inList(view) {
  const { list } = view;
  const page = Math.max(1, Math.floor(list.height / list.rowHeight) - 1);
  return {
    ArrowDown: () => view.activate(list.active + 1),
    ArrowUp: () => view.activate(list.active - 1),
    PageDown: () => view.activate(list.active + page),
    PageUp: () => view.activate(list.active - page),
    Home: () => view.activate(0),
    End: () => view.activate(list.total - 1),
    Enter: () => view.openActive(),
    " ": () => view.pause(!view.isPaused),
  };
}
