// The tab Kernels: the code of one, each line a link to its line of the model, and what it costs on GPUs.

import { $, h, put } from '../page/elements.js';
import { askOfBundle } from './building.js';
import { lineOf, linesOfKernels, namedLine } from './dispatches.js';
import { bench, say } from './state.js';
import { LANGUAGES, translated } from './translating.js';

/** @typedef {Record<string, string[]>} Links places by the name of a variable or binding */

const text = new TextDecoder();
/** The language in which kernels are shown. */
let language = '';
/** The links of the last build that was asked about, by kernel. @type {{built: any, links: Record<string, Links>}} */
let known = { built: null, links: {} };

/** @param {(line: number) => void} point @param {() => void} redraw */
export async function drawKernels(point, redraw) {
  const { plan, files } = /** @type {any} */ (bench.built);
  const lines = linesOfKernels(plan);
  const codeOf = (/** @type {string} */ name) => text.decode(files[`kernels/${name}.wgsl`]);
  const names = plan.kernels
    .map((/** @type {any} */ kernel) => kernel.name)
    .filter((/** @type {string} */ name) => codeOf(name).toLowerCase().includes(bench.search));
  if (!names.includes(bench.kernel)) bench.kernel = names[0] ?? '';
  const { kernel } = bench;
  if (!kernel) return put('shown', h('p', 'No kernel holds this text.'));
  const [code, links] = await Promise.all([inLanguage(codeOf(kernel)), linksOf(kernel)]);
  if (bench.tab !== 'Kernels' || bench.kernel !== kernel) return;
  const choice = kernelChoice(names, lines);
  choice.onchange = () => {
    bench.kernel = choice.value;
    point(lines.get(choice.value)?.[0] ?? 0);
    redraw();
  };
  const numbered = code.split('\n').map(line => ({ line, of: lineFor(line, links) }));
  const own = lines.get(kernel)?.[0] ?? 0;
  put('shown', [
    choice,
    languageChoice(redraw),
    figuresOf(kernel),
    h(
      'pre',
      numbered.map(({ line, of }) => codeLine(line, of || own, point)),
      { id: 'kernel-text', tabIndex: 0 },
    ),
  ]);
  $('kernel-text').dataset.kernel = kernel;
  bench.announce('line');
}

/** @param {string[]} names @param {Map<string, number[]>} lines */
const kernelChoice = (names, lines) =>
  h(
    'select',
    names.map(name =>
      h('option', `${name} · line ${(lines.get(name) ?? []).join(', ')}`, {
        value: name,
        selected: name === bench.kernel,
      }),
    ),
    { id: 'kernel', 'aria-label': 'Kernel' },
  );

/** @param {string} kernel @returns {Promise<Links>} */
async function linksOf(kernel) {
  const { built } = bench;
  if (known.built !== built) {
    known = { built, links: await askOfBundle('links').catch(() => ({})) };
  }
  return known.links[kernel] ?? {};
}

/** The line of the model that a line of code comes from: what it names, defines, stores or loads. @param {string} code @param {Links} links */
function lineFor(code, links) {
  const named = namedLine(code);
  if (named) return named;
  for (const [, stem, number] of code.matchAll(/\b([a-z]\w*?)_(\d+)\b/g)) {
    const places = links[stem] ?? [];
    const line = lineOf(places[Number(number)] ?? places.at(-1));
    if (line) return line;
  }
  for (const [name] of code.matchAll(/\b[a-z]+\d+\b/g)) {
    const line = lineOf(links[name]?.[0]);
    if (line) return line;
  }
  return 0;
}

/** What the access model says, as soon as somebody looks: that takes a moment. @param {string} kernel */
function figuresOf(kernel) {
  const box = h('details', h('summary', 'What it costs on a GPU'), { id: 'figures' });
  box.ontoggle = async () => {
    if (!box.open || box.children.length > 1) return;
    const waiting = box.appendChild(h('p', 'Running some of its workgroups…'));
    const figures = await askOfBundle('figures', { kernel }).catch(() => []);
    waiting.replaceWith(figures.length ? figureTable(figures) : h('p', 'Nothing is known of it.'));
  };
  return box;
}

/** @param {string[][]} figures */
const figureTable = figures =>
  h(
    'table',
    figures.map(cells =>
      h(
        'tr',
        cells.map(cell => h('td', cell)),
      ),
    ),
  );

/** @param {string} code */
async function inLanguage(code) {
  try {
    if (language) say('Translating…');
    const written = await translated(code, language);
    if (language) say('');
    return written;
  } catch (error) {
    say('This kernel has no form in that language.');
    return `${/** @type {Error} */ (error).message}`;
  }
}

/** @param {() => void} redraw */
function languageChoice(redraw) {
  const choice = h(
    'select',
    [...LANGUAGES].map(([name, value]) =>
      h('option', name, { value, selected: value === language }),
    ),
    { id: 'language', 'aria-label': 'Language of kernels' },
  );
  choice.onchange = () => {
    language = choice.value;
    redraw();
  };
  return choice;
}

/** @param {string} code @param {number} line of the model @param {(line: number) => void} point */
function codeLine(code, line, point) {
  const isMatch = bench.search && code.toLowerCase().includes(bench.search);
  return h('span', code || ' ', {
    className: `line linked${isMatch ? ' added' : ''}`,
    'data-line': String(line),
    onclick: () => point(line),
  });
}
