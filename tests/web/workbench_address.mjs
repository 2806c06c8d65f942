// Addresses of the workbench: one that it wrote, and hostile ones. Prints what is read from each.
import { randomBytes } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import { addressOf, readAddress } from '../../runtime_js/workbench/sharing.js';
import { bench } from '../../runtime_js/workbench/state.js';
import { answer } from './browser.mjs';

bench.files = { 'model.wg': '// grüße 😀\nmodel M {}\n', 'other.wg': 'dim N = 1\n' };
bench.main = 'other.wg';
bench.tab = 'Kernels';
bench.run = 'seed=7&steps=30&data=own';
const own = await addressOf();
const packed = text => `#m=${deflateRawSync(text).toString('base64url')}`;
const program = (files, main) => packed(JSON.stringify({ files, main }));
const HOSTILE = [
  '',
  '#m=',
  '#m=!!!!',
  '#m=AAAA',
  `#m=${'A'.repeat(300_000)}`,
  packed('not JSON'),
  packed('null'),
  packed('{"files":{"model.wg":"x"},"main":"toString"}'),
  program({ '../../x.wg': 'x' }, '../../x.wg'),
  program({ 'model.wg': 7 }, 'model.wg'),
  program({ 'model.wg': 'x'.repeat(2_000_000) }, 'model.wg'),
];
const fromPython = process.argv[2] ? await readAddress(process.argv[2]) : null;
// No address is longer than what is read.
bench.files['long.wg'] = randomBytes(300_000).toString('base64');
const tooLong = await addressOf().catch(({ message }) => message);
answer({
  fromPython,
  tooLong,
  own: await readAddress(own),
  hostile: await Promise.all(HOSTILE.map(readAddress)),
});
