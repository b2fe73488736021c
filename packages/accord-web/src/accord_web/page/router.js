// Addresses of the page: `/` is the list, `/session/ID` a session, `/session/ID/SUB` one of its subagents.

/** Fires `change` when the address has changed. */
export const router = new EventTarget();

/** Return the parts of the path. */
export function pathParts() {
  return location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
}

/** Return the id of the session that is shown, with that of its subagent; empty at the list. */
export function shownSession() {
  const [name, ...ids] = pathParts();
  return name === "session" ? ids.join("/") : "";
}

/** Return the address of a session that the conversation links to: a subagent of the one that is shown. @param {(string | number)[]} parts */
export function address(parts) {
  const [parent] = shownSession().split("/");
  const ids = String(parts[1] ?? "").split("/");
  const all = parent && ids[0] !== parent ? [parent, ...ids] : ids;
  return `/session/${all.filter(Boolean).map(encodeURIComponent).join("/")}`;
}

/** Messages have no numbers here: entries have no link. */
export const shownNumber = (/** @type {number} */ n) => n;
export const messageAddress = () => "/";

/** Go to an address of the page. @param {string} target @param {{replace?: boolean}} [options] */
export function go(target, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  router.dispatchEvent(new Event("change"));
}

addEventListener("popstate", () => router.dispatchEvent(new Event("change")));

// Links of the page are followed without loading it again.
addEventListener("click", (event) => {
  const link = event.composedPath().find((item) => item instanceof HTMLAnchorElement);
  if (!(link instanceof HTMLAnchorElement) || link.origin !== location.origin) return;
  if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
  if (link.target || link.hash) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
