// The service worker of the bundle, for a page that is served: it keeps the page for use offline, and
// isolates it where the host does not, so that the page may have several threads. Its address says
// which of them it does.

import { isServed } from './bundle.js';
import { $, guarded, put, say, show } from './elements.js';
import { page } from './state.js';

/** @typedef {{keeps: boolean, threads: string | null}} Service `threads`: how it isolates, if it does */

const SCRIPT = 'offline.js';
/** Browsers that do not know the first way to isolate pages (Safari) know the second. */
const WAYS = ['credentialless', 'require-corp'];

/** The registration of this bundle's script: the site may have a service worker of its own. */
async function registered() {
  const registration = await navigator.serviceWorker.getRegistration(SCRIPT);
  const script = registration?.active?.scriptURL.split('?')[0];
  return script === `${new URL(SCRIPT, document.baseURI)}` ? registration : undefined;
}

/** What the service worker of this page does. @returns {Promise<Service>} */
async function service() {
  const worker = (await registered())?.active;
  if (!worker) return { keeps: false, threads: null };
  const { searchParams } = new URL(worker.scriptURL);
  const threads = searchParams.get('threads');
  return { keeps: threads === null || searchParams.has('keep'), threads };
}

/** @param {Service} wanted */
async function change({ keeps, threads }) {
  const registration = await registered();
  if (!keeps && threads === null) return void (await registration?.unregister());
  const search = threads === null ? '' : `?${keeps ? 'keep&' : ''}threads=${threads}`;
  await activated(await navigator.serviceWorker.register(SCRIPT + search));
}

/** Its files are stored then. @param {ServiceWorkerRegistration} registration @returns {Promise<void>} */
function activated({ installing, waiting, active }) {
  const worker = /** @type {ServiceWorker} */ (installing ?? waiting ?? active);
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

async function toggleOffline() {
  const { keeps, threads } = await service();
  if (!keeps) say('Keeping the files of this page …');
  await change({ keeps: !keeps, threads });
  if (keeps) await removeKept();
  say(
    keeps
      ? 'The offline copy of this page is gone.'
      : 'This page works without a network now, in this browser.',
  );
  await draw();
}

async function removeKept() {
  const start = `wgcc ${new URL('.', document.baseURI)} `;
  const names = await caches.keys();
  await Promise.all(names.filter(name => name.startsWith(start)).map(name => caches.delete(name)));
}

/** Pages are isolated, or not, from their start on. */
async function toggleThreads() {
  const { keeps, threads } = await service();
  const next = crossOriginIsolated ? undefined : WAYS[WAYS.indexOf(threads ?? '') + 1];
  await change({ keeps, threads: next ?? null });
  if (next || crossOriginIsolated) location.reload();
  else say('This browser does not let this page have more threads.');
}

async function draw() {
  const { keeps, threads } = await service();
  const { kind, threadLimit } = page.model.adapter;
  const isIsolated = threads !== null && crossOriginIsolated;
  show({
    offline: true,
    threads: isIsolated || (kind === 'wasm' && threadLimit === 'not-isolated'),
  });
  put('offline', keeps ? 'Forget offline copy' : 'Keep for use offline');
  put('threads', isIsolated ? 'Use one thread' : 'Use more threads');
}

export function serviceCard() {
  page.when('loaded', () => {
    if (isServed && 'serviceWorker' in navigator) return draw();
  });
  $('offline').onclick = guarded(toggleOffline);
  $('threads').onclick = guarded(toggleThreads);
}
