// The page of examples/smollm in Firefox: node smollm_firefox.mjs FOLDER PROGRAM, where FOLDER has
// page/ and m.gguf.
import { join } from 'node:path';
import { openFirefox } from './bidi.mjs';
import { answer, serve } from './browser.mjs';

const [folder, program] = process.argv.slice(2);
const { url } = await serve({ '/files/': folder, '/': join(folder, 'page') });
const { evaluate, text, until, goTo } = await openFirefox(program);

/** In the page. */
async function chooseModel() {
  const data = await (await fetch('/files/m.gguf')).arrayBuffer();
  const transfer = new DataTransfer();
  transfer.items.add(new File([data], 'm.gguf'));
  const input = document.getElementById('model-file');
  input.files = transfer.files;
  input.dispatchEvent(new Event('change'));
}

/** In the page. */
function ask() {
  document.getElementById('temperature').value = 0;
  document.getElementById('steps').value = 8;
  document.getElementById('question').value = 'Who keeps it?';
  document.getElementById('send').click();
}

await goTo(`${url}/?device=wasm`);
await until("document.getElementById('about').textContent");
await evaluate(`(${chooseModel})()`);
await until("/is ready/.test(document.getElementById('status').textContent)");
const status = await text('status');
await evaluate(`(${ask})()`);
await until(
  "document.querySelector('#talk .assistant') && document.getElementById('send').textContent === 'Send'",
);
const said = await evaluate("document.querySelector('#talk .assistant').textContent");
await evaluate(
  "document.getElementById('text').value = 'the quick brown fox '.repeat(20); document.getElementById('train-steps').value = 3; document.getElementById('train').click()",
);
await until("/Learned in/.test(document.getElementById('status').textContent)");
answer({ status, said, loss: Number(await text('loss')) });
