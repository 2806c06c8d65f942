// What leaves the page: itself with its trained weights, as one file; a link to it as it is set; and
// its files, which the bundle's service worker keeps for use without a network.

import { fetchParts, isServed, plan } from './bundle.js';
import { $, download, guarded, h, put, say } from './elements.js';
import { keepStep } from './saving.js';
import { page, trainer } from './state.js';

/** The document before any script changed it. */
const untouched = /** @type {HTMLElement} */ (document.documentElement.cloneNode(true));
/**
 * The element of a checkpoint, which bundle.js reads. It stands before all scripts, and what people
 * wrote (title, comments) stands in the scripts or is escaped, so that its first tag is its own.
 */
const SLOT = 'script#trained';
const SLOT_TAG = '<script type="text/plain" id="trained">';
/** Fields by their names in a link. */
const SHARED_FIELDS = { seed: 'seed', steps: 'target', unit: 'target-unit', speed: 'speed-limit' };
const SERVICE = 'offline.js';

/** The text of this page as one file; a page that is served has it beside it. */
async function ownText() {
  if (!isServed) return `<!doctype html>\n${untouched.outerHTML}\n`;
  const response = await fetch('./index.html');
  if (!response.ok) throw Error('index.html of the bundle is not beside this page.');
  return response.text();
}

/** The page with a checkpoint, which was read back from it as a browser reads it. @param {string} text @param {string} checkpoint */
function withCheckpoint(text, checkpoint) {
  const start = text.indexOf(SLOT_TAG) + SLOT_TAG.length;
  const end = text.indexOf('</script>', start);
  const whole = text.slice(0, start) + checkpoint + text.slice(end);
  // Nothing in a template is run or applied.
  const slots = h('template', [], { innerHTML: whole }).content.querySelectorAll(SLOT);
  if (!checkpoint || slots.length !== 1 || slots[0].textContent !== checkpoint)
    throw Error('The weights could not be put into this page: download them instead.');
  return whole;
}

async function exportPage() {
  await page.measured;
  const { step } = page;
  const checkpoint = await base64Of(await page.model.save({ blob: true }));
  download(withCheckpoint(await ownText(), checkpoint), `${plan.model.name}-${step}.html`);
  keepStep(step);
  say(`Downloaded this page with the weights of step ${step}: it is one file.`);
}

/** @param {Blob} blob @returns {Promise<string>} */
const base64Of = blob =>
  new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(`${reader.result}`.split(',')[1]);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });

/** Whether the data is invented, in the page, or somebody's own. */
function dataKind() {
  if (page.data?.isInvented) return 'invented';
  return page.panel.source ? 'own' : 'page';
}

async function share() {
  const state = new URLSearchParams();
  for (const [key, id] of Object.entries(SHARED_FIELDS))
    if ($(id).value) state.set(key, $(id).value);
  state.set('data', dataKind());
  const link = `${location.href.split('#')[0]}#${state}`;
  history.replaceState(null, '', link);
  const isCopied = await navigator.clipboard?.writeText(link).then(
    () => true,
    () => false,
  );
  const file = location.protocol === 'file:' ? ' It is to this file: send the file with it.' : '';
  say(`${isCopied ? 'The link is copied.' : 'The link is in the address bar.'}${file}`);
}

/** Sets the controls as a link says. */
async function applyLink() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const [key, id] of Object.entries(SHARED_FIELDS)) {
    const before = $(id).value;
    if (state.has(key)) $(id).value = state.get(key);
    // A choice that is not in the list would leave it empty.
    $(id).value ||= before;
  }
  const seed = state.get('seed');
  if (seed && trainer && !page.step) await page.model.reset(Number(seed) >>> 0);
  if (state.get('data') === 'own')
    say('This link was made with data of somebody’s own: choose it below.');
}

/** The service worker that keeps this page, if it does. */
const keeper = () => navigator.serviceWorker.getRegistration(SERVICE);

async function drawOffline() {
  $('offline').hidden = false;
  put('offline', (await keeper()) ? 'Forget offline copy' : 'Keep for use offline');
}

async function toggleOffline() {
  const registration = await keeper();
  if (registration) await forget(registration);
  else {
    say('Keeping the files of this page …');
    await activated(await navigator.serviceWorker.register(SERVICE));
    say('This page works without a network now, in this browser.');
  }
  await drawOffline();
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

/** @param {ServiceWorkerRegistration} registration */
async function forget(registration) {
  const names = await caches.keys();
  const own = names.filter(name => name.startsWith(`wgcc ${registration.scope} `));
  await Promise.all(own.map(name => caches.delete(name)));
  await registration.unregister();
  say('The offline copy of this page is gone.');
}

export function sharing() {
  page.when('loaded', applyLink);
  page.when('loaded', () => {
    // What training needs is fetched at once, so that it works after the network is gone.
    fetchParts();
    if (isServed && 'serviceWorker' in navigator) return drawOffline();
  });
  $('export').onclick = guarded(exportPage);
  $('share').onclick = guarded(share);
  $('offline').onclick = guarded(toggleOffline);
}
