// The keys of the timeline. `timeline-help.js` lists them.

/**
 * Do what a key means in the timeline.
 * @param {any} view the timeline
 * @param {KeyboardEvent} event
 */
export function handleKey(view, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || view.help.open) return;
  const target = /** @type {HTMLElement} */ (event.composedPath()[0]);
  const isField = /^(input|textarea|select)$/.test(target.localName);
  if (event.key === "Escape" && isField) {
    view.list.element.focus();
    return;
  }
  if (isField || event.defaultPrevented) return;
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
    "?": () => view.help.showModal(),
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
