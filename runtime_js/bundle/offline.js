// A service worker that keeps this bundle for use offline, lets pages have threads, or both: as the
// address says that it is registered by. Written by `wgcc build`; do not edit.

// `offline.js` keeps files, `offline.js?threads` isolates pages, `offline.js?keep&threads` does both.
const WANTED = new URL(location).searchParams;
const ISOLATES = WANTED.has('threads');
const KEEPS = WANTED.has('keep') || !ISOLATES;
// Another build has another cache; other folders have caches of their own.
const FOLDER = `wgcc ${registration.scope} `;
const CACHE = `${FOLDER}__DIGEST__`;
const FILES = __LIST__;
// Only isolated pages share memory between threads. Files of other hosts that do not allow it are
// fetched without cookies; browsers that cannot do so (Safari) need `?threads=require-corp`.
const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy':
    WANTED.get('threads') === 'require-corp' ? 'require-corp' : 'credentialless',
  // For frames of pages that are not isolated.
  'Document-Isolation-Policy': 'isolate-and-credentialless',
};
const ISOLATED = ['document', 'iframe', 'worker', 'sharedworker'];

addEventListener('install', event => {
  skipWaiting();
  if (KEEPS) event.waitUntil(caches.open(CACHE).then(cache => cache.addAll(FILES)));
});

addEventListener('activate', event => {
  // Pages that are open already are answered, too.
  event.waitUntil(removeOlder().then(() => clients.claim()));
});

addEventListener('fetch', event => {
  const { request } = event;
  if (request.method !== 'GET') return;
  const isIsolated = ISOLATES && ISOLATED.includes(request.destination);
  event.respondWith(isIsolated ? answer(request).then(isolated) : answer(request));
});

async function removeOlder() {
  const names = await caches.keys();
  const older = names.filter(name => name.startsWith(FOLDER) && !(KEEPS && name === CACHE));
  await Promise.all(older.map(name => caches.delete(name)));
}

/** The network's answer, else what was kept: so a page with a network is never old. */
async function answer(request) {
  try {
    return await fetch(request);
  } catch (error) {
    const kept = await caches.match(request, { cacheName: CACHE, ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}

/** The same answer, of a page or worker that may share memory. */
function isolated(response) {
  // Redirections, and answers of other hosts, cannot be read.
  if (response.status === 0) return response;
  const { body, status, statusText } = response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  return new Response(body, { status, statusText, headers });
}
