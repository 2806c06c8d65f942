// The page of `wgcc show --graph html`: which entry and stages are drawn, search and selection.
import { changesBetween } from './changes.js';
import { readPage } from './data.js';
import { detailsOf, element } from './details.js';
import { Pane } from './pane.js';

/** @param {string} id @returns {any} the element; the page's HTML says of which kind it is */
const $ = id => document.getElementById(id);

const page = readPage($('data').textContent);
/** @type {Pane[]} */
let panes = [];
/** @type {{ pane: Pane, box: number }[]} */
let matches = [];
let at = -1;
// Which boxes the matches are, if they are no result of a search.
let walked = '';

/** @param {HTMLSelectElement} select @param {string[]} names @param {string} chosen @param {string} [none] */
function fill(select, names, chosen, none) {
  const options = names.map(name => element('option', [name], { value: name }));
  select.replaceChildren(...(none ? [element('option', [none], { value: '' })] : []), ...options);
  select.value = names.includes(chosen) ? chosen : select.options[0].value;
}

function entry() {
  const named = page.entries.find(({ name }) => name === $('entry').value);
  return named ?? page.entries[0];
}

/** Draws the chosen stage, and the one it is compared with beside it. */
function draw() {
  const stages = [$('left-stage').value, $('right-stage').value].filter(Boolean);
  const chosen = stages.flatMap(name => entry().stages.filter(stage => stage.name === name));
  const changes = chosen.length === 2 ? changesBetween(chosen[0], chosen[1]) : null;
  panes = chosen.map(
    (stage, i) => new Pane(stage, changes ? [changes.before, changes.after][i] : [], select),
  );
  $('panes').replaceChildren(...panes.map(pane => pane.element));
  for (const pane of panes) pane.begin();
  const counts = ['new', 'changed', 'gone'].map(kind => {
    const all = changes ? [...changes.before, ...changes.after] : [];
    return element('button', [`${all.filter(change => change === kind).length} ${kind}`], {
      className: `count ${kind}`,
      title: 'go to the next',
      onclick: () => nextChange(kind),
    });
  });
  $('changes').replaceChildren(...(changes ? counts : []));
  close();
  search();
}

/** @param {Pane} pane @param {number} n */
function select(pane, n) {
  if (n < 0) return;
  const box = pane.stage.boxes[n];
  for (const other of panes) {
    // The same value in the other stage is shown, too.
    const same = other.stage.boxes.findIndex(b => b.kind === box.kind && b.name === box.name);
    if (other !== pane) other.show(same);
  }
  const shown = detailsOf(page, pane, n, number => select(pane, number));
  const button = element('button', ['Close'], { className: 'close', onclick: close });
  $('details').replaceChildren(button, ...shown);
  $('details').hidden = false;
  pane.show(n);
  $('said').textContent = `${box.title}, ${box.detail}${box.at ? `, line ${box.at}` : ''}`;
}

function close() {
  $('details').hidden = true;
  for (const pane of panes) pane.show(-1);
}

/** Marks all boxes that have every word of the search in one of their texts. */
function search() {
  const words = $('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  matches = [];
  at = -1;
  walked = '';
  for (const pane of panes) {
    const numbers = pane.stage.boxes.flatMap((box, n) => {
      const text = Object.values(box).join('\n').toLowerCase();
      return words.length && words.every((/** @type {string} */ word) => text.includes(word))
        ? [n]
        : [];
    });
    pane.mark(words.length ? new Set(numbers) : null);
    matches.push(...numbers.map(box => ({ pane, box })));
  }
  $('matches').textContent = words.length
    ? `${matches.length} match${matches.length === 1 ? '' : 'es'}`
    : '';
}

/** @param {number} step */
function nextMatch(step) {
  if (!matches.length) return;
  at = (at + step + matches.length) % matches.length;
  select(matches[at].pane, matches[at].box);
  $('matches').textContent = `${at + 1} of ${matches.length}`;
}

/** @param {string} kind goes to the next box that is new, changed or gone */
function nextChange(kind) {
  if (walked !== kind) {
    matches = panes.flatMap(pane =>
      pane.changes.flatMap((change, box) => (change === kind ? [{ pane, box }] : [])),
    );
    [walked, at] = [kind, -1];
  }
  nextMatch(1);
}

function chooseEntry() {
  const names = entry().stages.map(stage => stage.name);
  fill($('left-stage'), names, $('left-stage').value || page.stage);
  fill($('right-stage'), names, $('right-stage').value, 'nothing');
  draw();
}

/** @param {KeyboardEvent} event */
function key(event) {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === 'Escape') close();
  else if (event.key === '/' && !isTyping) {
    event.preventDefault();
    $('search').focus();
  } else if (event.key === 'Enter' && isTyping) nextMatch(event.shiftKey ? -1 : 1);
}

fill(
  $('entry'),
  page.entries.map(({ name }) => name),
  '',
);
$('entry').onchange = chooseEntry;
$('left-stage').onchange = draw;
$('right-stage').onchange = draw;
$('search').oninput = search;
$('larger').onclick = () => panes.forEach(pane => void pane.zoom(1.25));
$('smaller').onclick = () => panes.forEach(pane => void pane.zoom(0.8));
$('fit').onclick = () => panes.forEach(pane => void pane.fit());
document.addEventListener('keydown', key);
chooseEntry();
