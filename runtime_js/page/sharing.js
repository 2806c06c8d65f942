// What leaves the page: itself with its trained weights, as one file, and a link to it as it is set.

import { fetchParts, isServed, plan } from './bundle.js';
import { $, download, guarded, h, say } from './elements.js';
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

/** The controls and the kind of data. */
function settings() {
  const state = new URLSearchParams();
  for (const [key, id] of Object.entries(SHARED_FIELDS))
    if ($(id).value) state.set(key, $(id).value);
  state.set('data', dataKind());
  return `${state}`;
}

async function share() {
  const link = `${location.href.split('#')[0]}#${settings()}`;
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

export function sharing() {
  page.when('loaded', applyLink);
  // What training needs is fetched at once, so that it works after the network is gone.
  page.when('loaded', fetchParts);
  page.settings = settings;
  $('export').onclick = guarded(exportPage);
  $('share').onclick = guarded(share);
}
