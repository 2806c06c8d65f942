// Training on machines whose submits take a latency and a time per step: JSON in and out.
import { readFileSync } from 'node:fs';
import { Pace } from '../../runtime_js/fit/pace.js';

const SUBMITS = 200;

function train({ latency, step, noise = 0, most = 64 }) {
  const pace = new Pace();
  const counts = [];
  let count = 1;
  let ms = 0;
  for (let i = 0; i < SUBMITS; i++) {
    counts.push(count);
    // From -0.3 to 0.7, in no order.
    const jitter = ((i * 7919) % 1000) / 1000 - 0.3;
    const taken = latency + step * count + noise * jitter;
    ms += taken;
    count = Math.min(most, pace.next(count, taken));
  }
  const steps = counts.reduce((sum, found) => sum + found, 0);
  const usual = counts.slice(50).sort((a, b) => a - b);
  return { rate: (1000 * steps) / ms, counts: counts.slice(0, 8), median: usual[75] };
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(train)));
