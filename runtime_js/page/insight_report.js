// What the page shows of a training as one HTML file, which needs nothing else: for a portfolio, a
// teacher, or a printer.

import { $, download, h } from './elements.js';

/** The parts of the page, in the order of the report. */
const REPORTED = ['insight', 'train', 'preview'];
/** Parts that only the page itself can do something with. */
const CONTROLS = '.row, button, [hidden]';

export async function downloadReport() {
  const details = $('insight-more');
  details.open = true;
  const parts = REPORTED.map(id => copyOf($(id)));
  const style = [...document.querySelectorAll('style')].map(({ textContent }) => textContent);
  const report = h(
    'html',
    [
      h('head', [
        h('meta', [], { charset: 'utf-8' }),
        h('meta', [], { name: 'viewport', content: 'width=device-width, initial-scale=1' }),
        h('title', `${document.title}: what it learned`),
        h('style', style.join('\n')),
      ]),
      h('body', [h('h1', document.title), h('p', $('rows').textContent), ...parts]),
    ],
    { lang: 'en' },
  );
  const name = `${document.title.replace(/[^\w-]+/g, '-')}-report.html`;
  download(`<!doctype html>\n${report.outerHTML}\n`, name);
}

/** A copy whose canvases are pictures. @param {HTMLElement} element */
function copyOf(element) {
  const copy = /** @type {HTMLElement} */ (element.cloneNode(true));
  const canvases = [...element.querySelectorAll('canvas')];
  copy.querySelectorAll('canvas').forEach((canvas, i) => {
    const alt = canvas.getAttribute('aria-label') ?? '';
    const { width } = canvases[i];
    if (width && !canvases[i].hidden)
      canvas.replaceWith(h('img', [], { src: canvases[i].toDataURL(), alt, style: 'width: 100%' }));
  });
  for (const control of copy.querySelectorAll(CONTROLS)) control.remove();
  return copy;
}
