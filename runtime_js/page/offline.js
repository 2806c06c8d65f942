// Use without a network. A page that a server sends fetches what training needs at once; its files are
// kept by the bundle's service worker if a person asks for it.

const SERVICE = 'offline.js';
const canKeepFiles = isServed && 'serviceWorker' in navigator;

/** The service worker that keeps this page, if it does. */
const keeper = () => navigator.serviceWorker.getRegistration(SERVICE);

async function showOffline() {
  $('offline').hidden = false;
  $('offline').textContent = (await keeper()) ? 'Forget offline copy' : 'Keep for use offline';
}

async function toggleOffline() {
  const kept = await keeper();
  if (kept) await forget(kept);
  else {
    say('Keeping the files of this page …');
    await activated(await navigator.serviceWorker.register(SERVICE));
    say('This page works without a network now, in this browser.');
  }
  await showOffline();
}

/** Its files are stored then. */
function activated({ installing, waiting, active }) {
  const worker = installing ?? waiting ?? active;
  return new Promise((resolve, reject) => {
    const look = () => {
      if (worker.state === 'activated') resolve();
      if (worker.state === 'redundant')
        reject(new Error('The files of this page could not be kept: is the storage full?'));
    };
    worker.onstatechange = look;
    look();
  });
}

async function forget(registration) {
  const names = await caches.keys();
  const own = names.filter(name => name.startsWith(`wgcc ${registration.scope} `));
  await Promise.all(own.map(name => caches.delete(name)));
  await registration.unregister();
  say('The offline copy of this page is gone.');
}

page.when('loaded', () => {
  fetchParts();
  if (canKeepFiles) return showOffline();
});
$('offline').onclick = guarded(toggleOffline);
