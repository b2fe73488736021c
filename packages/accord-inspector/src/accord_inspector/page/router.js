// Addresses: the path names the view and what it shows, the query holds the filters.

import { queryOf } from "./api.js";

/** Fires `change` when the address has changed. */
export const router = new EventTarget();

/** Return the parts of the path: `/timeline/7` is `["timeline", "7"]`. */
export function pathParts() {
  return location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
}

/** Return the query parameters of the address. */
export function params() {
  return new URLSearchParams(location.search);
}

/**
 * Return an address. The parameter `recording`, which all views share, is kept.
 * @param {(string | number)[]} parts @param {Record<string, any> | URLSearchParams} [query]
 */
export function address(parts, query = {}) {
  const search = query instanceof URLSearchParams ? new URLSearchParams(query) : queryOf(query);
  const recording = params().get("recording");
  if (recording && !search.has("recording")) search.set("recording", recording);
  const text = search.toString();
  return `/${parts.map((part) => encodeURIComponent(part)).join("/")}${text ? `?${text}` : ""}`;
}

// The server counts messages from 0. People count them from 1, as `accord trace show` does.

/** Return the number of a message as people read it. @param {number} n */
export const shownNumber = (n) => n + 1;

/** Return the message that an address or a text names. @param {string} text */
export const messageOf = (text) => Number(text) - 1;

/** Return the address of a message. @param {number} n @param {Record<string, any> | URLSearchParams} [query] */
export const messageAddress = (n, query) => address(["timeline", shownNumber(n)], query);

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
  if (link.target || link.hasAttribute("download") || link.pathname.startsWith("/api/")) return;
  if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
});
