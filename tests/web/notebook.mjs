// A notebook of marimo in Chromium: the widget's curve is drawn, and its controls reach the kernel.
import { launch, openPage } from './browser.mjs';

const browser = await launch();
const { page, problems } = await openPage(browser, { viewport: { width: 900, height: 1200 } });
await page.goto(process.argv[2]);
const seen = {};
const finished = page.locator('.wgcc-training', { hasText: 'finished' });
await finished.locator('polyline.loss').waitFor({ timeout: 60_000 });
seen.finished = await finished.locator('[role=status]').textContent();

const live = page.locator('.wgcc-training', { hasText: 'rate' }).last();
const status = live.locator('[role=status]');
const says = (text, timeout = 60_000) => live.getByText(text).first().waitFor({ timeout });
const step = async () => Number((await status.textContent()).match(/\d+/)[0]);
await says('running');
await live.getByRole('button', { name: 'Pause' }).click();
await says('paused');
seen.first = await step();
await live.getByRole('button', { name: 'Step' }).click();
await says(`paused   ${seen.first + 1} `);
seen.second = await step();
await live.getByLabel('rate').fill('0.002');
await live.getByLabel('rate').press('Tab');
await live.getByRole('button', { name: 'Resume' }).click();
await says('running');
await live.getByRole('button', { name: 'Stop' }).click();
await says('stopped');
seen.rate = await live.getByLabel('rate').inputValue();
seen.isDisabled = await live.getByRole('button', { name: 'Stop' }).isDisabled();
seen.points = (await live.locator('polyline.loss').getAttribute('points')).split(' ').length;
await live.getByRole('img', { name: 'histogram of guess' }).waitFor();
seen.captures = await live.locator('figure canvas').count();
seen.problems = problems.filter(text => text.includes('wgcc'));
await browser.close();
console.log(JSON.stringify(seen));
