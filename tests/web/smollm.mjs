// The page of examples/smollm, used as a person would: node smollm.mjs FOLDER, which has page/ and
// the files m.gguf, other.gguf and saved/weights.safetensors. Screenshots are put into FOLDER.
import { join } from 'node:path';
import { answer, launch, openPage, serve } from './browser.mjs';

const [folder] = process.argv.slice(2);
const isolated = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
};
const { url, close } = await serve({ '/': join(folder, 'page') }, isolated);
const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
context.setDefaultTimeout(240_000);
const TEXT = 'The quick brown fox keeps the lighthouse. '.repeat(6);
const QUESTION = 'Who keeps it?';
const PEFT = ['adapter_config.json', 'adapter_model.safetensors'];

async function opened(query) {
  const { page, problems } = await openPage(context);
  await page.goto(`${url}/?${query}`);
  return { page, problems };
}
const status = (page, words) =>
  page.waitForFunction(
    words => document.getElementById('status').textContent.includes(words),
    words,
    { timeout: 240_000 },
  );
const choose = (page, name) => page.setInputFiles('#model-file', join(folder, name));

async function asked(page, question) {
  await page.fill('#question', question);
  await page.click('#send');
  await page.waitForFunction(() => {
    const last = [...document.querySelectorAll('#talk .assistant')].at(-1);
    return (
      last && last.textContent !== '…' && document.getElementById('send').textContent === 'Send'
    );
  });
  return page.textContent('#talk .assistant >> nth=-1');
}
async function compared(page) {
  await page.fill('#both-question', QUESTION);
  await page.click('#ask-both');
  await page.waitForFunction(
    () =>
      document.getElementById('ask-both').textContent === 'Ask both' &&
      document.getElementById('before').textContent !== '…' &&
      document.getElementById('after').textContent !== '…',
  );
  return [await page.textContent('#before'), await page.textContent('#after')];
}
async function learned(page, steps) {
  await page.fill('#text', TEXT);
  await page.fill('#train-steps', `${steps}`);
  const losses = [];
  await page.exposeFunction('heard', loss => Number.isFinite(loss) && losses.push(loss));
  await page.evaluate(() => {
    const shown = document.getElementById('loss');
    new MutationObserver(() => globalThis.heard(Number.parseFloat(shown.textContent))).observe(
      shown,
      {
        childList: true,
      },
    );
  });
  await page.click('#train');
  await status(page, 'Learned in');
  return losses;
}
async function saved(page, button, names) {
  const waiting = names.map(() => page.waitForEvent('download'));
  const arrived = [];
  page.on('download', download => arrived.push(download));
  await page.click(button);
  await waiting[0];
  while (arrived.length < names.length) await page.waitForTimeout(50);
  for (const download of arrived) await download.saveAs(join(folder, download.suggestedFilename()));
  return arrived.map(download => download.suggestedFilename()).sort();
}

/** What the page says of files that do not fit. */
async function refusals(page) {
  const refused = [];
  for (const name of ['other.gguf', 'wide.gguf', 'cut.gguf', 'words.gguf', 'page/plan.json']) {
    await page.evaluate(() => document.getElementById('status').replaceChildren());
    await choose(page, name);
    await page.waitForFunction(
      () =>
        document.getElementById('loading').hidden && document.getElementById('status').textContent,
    );
    refused.push(await page.textContent('#status'));
  }
  return refused;
}

async function screenshots(page) {
  const shot = name => page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
  await shot('light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await shot('dark');
  await page.setViewportSize({ width: 390, height: 844 });
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  await shot('phone');
  await page.setViewportSize({ width: 2560, height: 1200 });
  await shot('large');
  return isWide;
}

/** What was learned leaves the page, is forgotten, and comes back in two ways; the model is kept. */
async function travels(page) {
  const files = [
    ...(await saved(page, '#save-gguf', ['adapter.gguf'])),
    ...(await saved(page, '#save-peft', PEFT)),
  ];
  await page.click('#forget');
  await status(page, 'as its file has it');
  const forgotten = await compared(page);
  await page.setInputFiles('#adapter-file', join(folder, 'adapter.gguf'));
  await status(page, 'there again');
  const again = await compared(page);
  await page.reload();
  await page.click('#use-kept');
  await status(page, 'is ready');
  const both = PEFT.map(name => join(folder, name));
  await page.setInputFiles('#adapter-file', both);
  await status(page, 'there again');
  return { files, forgotten, again, later: await compared(page) };
}

/** The whole story, without a GPU. */
async function story() {
  const { page, problems } = await opened('device=wasm&threads=2');
  const refused = await refusals(page);
  await page.check('#keep');
  await choose(page, 'm.gguf');
  await status(page, 'kept in this browser');
  const device = await page.textContent('#status');
  await page.click('summary');
  await page.fill('#temperature', '0');
  await page.fill('#steps', '8');
  const first = await asked(page, QUESTION);
  const losses = await learned(page, 40);
  const sides = await compared(page);
  const after = await asked(page, QUESTION);
  const wide = await screenshots(page);
  const travelled = await travels(page);
  await page.close();
  return { problems, refused, device, first, losses, sides, after, wide, ...travelled };
}

/** The same model as a saved folder, on WebGPU. */
async function onGpu() {
  const { page, problems } = await opened('device=webgpu');
  await choose(page, 'saved/weights.safetensors');
  await status(page, 'is ready');
  const device = await page.textContent('#status');
  const losses = await learned(page, 3);
  const [before] = await compared(page);
  await page.close();
  return { problems, device, losses, before };
}

const result = { story: await story(), gpu: await onGpu() };
await browser.close();
close();
answer(result);
