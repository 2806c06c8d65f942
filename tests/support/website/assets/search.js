// Searches the index of all sections. It is a script of its own, loaded at the first key, so that
// the site also works as files, without a server.

const RESULTS_SHOWN = 12;
const EXCERPT = 110;
const root = document.body.dataset.root;
const query = /** @type {HTMLInputElement} */ (document.getElementById('query'));
const results = /** @type {HTMLElement} */ (document.getElementById('results'));
/** @type {Promise<[string, string, string, string][]> | undefined} */
let loading;

function loadIndex() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = `${root}search-index.js`;
    script.onload = () => resolve(/** @type {any} */ (window).searchIndex);
    script.onerror = () => reject(new Error('the search index is missing'));
    document.head.append(script);
  });
  return loading;
}

/** How well a section fits: 0 if a word is not in it. Names count more than text. */
function score([_place, title, heading, text], words) {
  let sum = 0;
  for (const word of words) {
    const names = heading.toLowerCase();
    if (names === word) sum += 60;
    else if (names.startsWith(word)) sum += 25;
    else if (names.includes(word)) sum += 12;
    else if (title.toLowerCase().includes(word)) sum += 6;
    else if (text.toLowerCase().includes(word)) sum += 1;
    else return 0;
  }
  return sum;
}

/** The words around the first match. */
function excerpt(text, words) {
  const lower = text.toLowerCase();
  const at = Math.max(0, Math.min(...words.map(word => lower.indexOf(word)).filter(i => i >= 0)));
  const start = Number.isFinite(at) ? Math.max(0, at - EXCERPT / 2) : 0;
  return `${start ? '…' : ''}${text.slice(start, start + EXCERPT)}`;
}

function item([place, title, heading, text], words) {
  const link = document.createElement('a');
  link.href = root + place;
  link.textContent = heading && heading !== title ? `${heading} · ${title}` : title;
  const small = document.createElement('small');
  small.textContent = excerpt(text, words);
  link.append(small);
  const entry = document.createElement('li');
  entry.append(link);
  return entry;
}

async function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) {
    results.hidden = true;
    return;
  }
  const index = await loadIndex();
  const fitting = index
    .map(section => /** @type {const} */ ([score(section, words), section]))
    .filter(([points]) => points > 0)
    .sort((a, b) => b[0] - a[0])
    .slice(0, RESULTS_SHOWN);
  const list = document.createElement('ol');
  list.append(...fitting.map(([, section]) => item(section, words)));
  const none = document.createElement('p');
  none.textContent = 'Nothing matches all of these words.';
  results.replaceChildren(fitting.length ? list : none);
  results.hidden = false;
}

/** Moves the focus from the field to the results and between them. */
function move(event, step) {
  const links = [query, ...results.querySelectorAll('a')];
  const at = links.indexOf(/** @type {any} */ (document.activeElement));
  const next = links[at + step];
  if (results.hidden || at < 0 || !next) return;
  event.preventDefault();
  next.focus();
}

document.addEventListener('keydown', event => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === '/' && !isTyping) {
    event.preventDefault();
    query.focus();
  } else if (event.key === 'Escape') results.hidden = true;
  else if (event.key === 'ArrowDown') move(event, 1);
  else if (event.key === 'ArrowUp') move(event, -1);
});
query.addEventListener('input', search);
document.getElementById('search')?.addEventListener('submit', event => {
  event.preventDefault();
  results.querySelector('a')?.click();
});
document.addEventListener('click', event => {
  if (!results.parentElement?.contains(/** @type {Node} */ (event.target))) results.hidden = true;
});
// The menu is open beside the text, and closed above it on a phone.
if (matchMedia('(max-width: 48rem)').matches)
  document.querySelector('.menu')?.removeAttribute('open');
