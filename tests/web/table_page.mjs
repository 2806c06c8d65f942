// Pages of `wgcc new --from`: fields of columns as people write them, and what the model learned.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { answer } from './browser.mjs';
import { open, seen, text, train } from './page_tools.mjs';

const require = createRequire(join(process.env.NODE_FOLDER, 'from-here.js'));
const [, files] = process.argv.slice(2);
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

/** Rules that axe says the page breaks, as it is now. */
const broken = page =>
  page.evaluate(async axe => {
    globalThis.axe ?? new Function(axe)();
    const { violations } = await globalThis.axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
  }, AXE);

/** In the light, in the dark, and on a phone. */
async function looks(page, name) {
  const problems = [];
  for (const [look, colorScheme, width] of [
    ['light', 'light', 1280],
    ['dark', 'dark', 1280],
    ['phone', 'light', 390],
  ]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 900 });
    problems.push(...(await broken(page)));
    await page.screenshot({ path: join(files, `${name}-${look}.png`), fullPage: true });
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (excess > 0) problems.push(`${look}: ${excess} pixels too wide`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  return problems;
}

/** The held-out rows with what the model says of them, from the model itself. */
const judged = page =>
  page.evaluate(async () => {
    const { data, model } = globalThis.wgccPage;
    const { x, y } = data.heldOut;
    const outputs = await model.callPrepared('predict', { x });
    return {
      truth: [...y],
      said: [...Object.values(outputs)[0]],
      spec: data.train.preparation.inputs.y,
    };
  });

async function learned(page) {
  await page.waitForSelector('#insight:not([hidden])');
  await page.click('#insight-more summary');
  await page.waitForSelector('#insight-importance .bar');
  const list = selector => page.$$eval(selector, all => all.map(one => one.textContent));
  return {
    figures: await list('#insight-figures dd'),
    table: await list('#insight-table tbody td'),
    columns: await list('#insight-importance .bar span:first-child'),
    wrong: await list('#insight-wrong th'),
    judged: await judged(page),
  };
}

async function report(page) {
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('#insight-report')]);
  const html = readFileSync(await file.path(), 'utf8');
  return { name: file.suggestedFilename(), html };
}

async function numbers() {
  const page = await open('flats');
  const found = { isHidden: await page.isHidden('#insight') };
  found.labels = await page.$$eval('#inputs label', all => all.map(one => one.textContent));
  await train(page, 300);
  found.learned = await learned(page);
  found.problems = await looks(page, 'flats');
  found.report = await report(page);
  await page.selectOption('#class-city', { label: 'Cork' });
  await page.fill('#date-sold', '2021-04-03');
  await page.click('#many summary');
  const rows = 'sold,lift,area,city\n3.4.2021,no,44,Cork\n';
  await page.fill('#many-text', rows);
  await page.click('#many-run');
  await page.waitForSelector('#many-table table');
  found.pasted = await page.$$eval('#many-table td', all => all.map(one => one.textContent));
  await page.fill('#many-text', rows.replace('Cork', 'Riga'));
  await page.click('#many-run');
  await page.waitForFunction(() => /Riga/.test(document.getElementById('status').textContent));
  found.unknown = await text(page, 'status');
  await page.setInputFiles('#file', join(files, 'more.csv'));
  await page.waitForSelector('#data-question:not([hidden])');
  await page.click('#data-question button');
  await page.waitForFunction(() => /more.csv: /.test(document.getElementById('rows').textContent));
  found.more = await page.evaluate(() => [...globalThis.wgccPage.panel.read.arrays.x.shape]);
  found.isGone = await page.isHidden('#insight');
  await page.close();
  return found;
}

async function classes() {
  const page = await open('penguins');
  await train(page, 200);
  const found = { learned: await learned(page), problems: await looks(page, 'penguins') };
  await page.close();
  return found;
}

answer({ numbers: await numbers(), classes: await classes(), problems: seen.problems });
