// Keeps the page's own files, so that it opens without a connection and says so. No answer of the
// server is kept here: what the page has last shown of the sessions is in its own storage.

const NAME = "accord";

addEventListener("install", () => self.skipWaiting());
addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== location.origin || url.pathname.startsWith("/api/")) return;
  const isPage = request.mode === "navigate";
  if (!isPage && !url.pathname.startsWith("/page/")) return;
  event.respondWith(answer(event, request, isPage ? "/" : url.pathname));
});

async function answer(event, request, key) {
  const kept = await caches.open(NAME);
  try {
    const response = await fetch(request);
    if (response.ok) event.waitUntil(keep(kept, key, response.clone()));
    return response;
  } catch (error) {
    const found = await kept.match(key);
    if (found) return found;
    throw error;
  }
}

// Files have a version in their address: those of an earlier page are dropped.
async function keep(kept, key, response) {
  await kept.put(key, response);
  const version = /^\/page\/([0-9a-f]{16})\//.exec(key)?.[1];
  if (!version) return;
  for (const { url } of await kept.keys()) {
    const other = /\/page\/([0-9a-f]{16})\//.exec(url)?.[1];
    if (other && other !== version) await kept.delete(url);
  }
}
