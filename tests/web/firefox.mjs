// A bundle's index.html in Firefox, opened from disk: what its status line says, and that it trains.
//   node firefox.mjs INDEX.HTML PROGRAM
import { pathToFileURL } from 'node:url';
import { openFirefox } from './bidi.mjs';
import { answer, watchWorkers } from './browser.mjs';

const [html, program] = process.argv.slice(2);
const { evaluate, text, until, preload, goTo } = await openFirefox(program);
await preload(watchWorkers);
await goTo(pathToFileURL(html).href);
await until("/parameters|not work/.test(document.getElementById('status').textContent)");
const status = await text('status');
await until("!document.getElementById('start').disabled");
await evaluate("document.getElementById('start').click()");
await until("Number(document.getElementById('step').textContent) >= 100");
const found = { status, loss: Number(await text('loss')), replies: await evaluate('replies') };
await evaluate("document.getElementById('start').click()");
await until("document.getElementById('start').textContent === 'Train'");

/** In the page: chooses a table in the card of the data. */
function chooseTable(lines) {
  const transfer = new DataTransfer();
  transfer.items.add(new File([lines.join('\n')], 'table.csv'));
  const input = document.getElementById('file');
  input.files = transfer.files;
  input.dispatchEvent(new Event('change'));
}
// A table with decimal commas; the model, which has learned from other data, begins anew.
const rows = Array.from({ length: 20 }, (_, i) => `${i},5;${i % 3};0,${i};1;${'uvw'[i % 3]}`);
const lines = JSON.stringify(['a;b;c;d;species', ...rows]);
await evaluate(`(${chooseTable})(${lines})`);
await until("!document.getElementById('data-question').hidden");
await evaluate("document.querySelector('#data-question button').click()");
await until("/to learn from/.test(document.getElementById('rows').textContent)");
found.rows = await text('rows');
found.notes = await text('data-notes');
found.cells = await evaluate(
  "Array.from(document.querySelectorAll('#preview tbody tr:first-child td'), cell => cell.textContent).join(' ')",
);
await until("!document.getElementById('start').disabled");
await evaluate("document.getElementById('start').click()");
await until("Number(document.getElementById('step').textContent) >= 20");
found.learned = Number(await text('loss'));
answer(found);
