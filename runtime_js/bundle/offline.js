// A service worker that keeps this bundle for use offline. Written by `wgcc build`; do not edit.

// Another build has another cache; other folders have caches of their own.
const FOLDER = `wgcc ${registration.scope} `;
const CACHE = `${FOLDER}__DIGEST__`;
const FILES = __LIST__;

addEventListener('install', event => {
  event.waitUntil(caches.open(CACHE).then(cache => cache.addAll(FILES)));
});

addEventListener('activate', event => {
  // Pages that are open already are answered, too.
  event.waitUntil(removeOlder().then(() => clients.claim()));
});

addEventListener('fetch', event => {
  if (event.request.method === 'GET') event.respondWith(answer(event.request));
});

async function removeOlder() {
  const names = await caches.keys();
  const older = names.filter(name => name.startsWith(FOLDER) && name !== CACHE);
  await Promise.all(older.map(name => caches.delete(name)));
}

/** The network's answer, else what was kept: so a page with a network is never old. */
async function answer(request) {
  try {
    return await fetch(request);
  } catch (error) {
    const cache = await caches.open(CACHE);
    const kept = await cache.match(request, { ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}
