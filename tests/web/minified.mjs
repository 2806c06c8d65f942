// The twin of a bundle whose scripts a bundler has joined and minified: node minified.mjs SCRIPT

import { pathToFileURL } from 'node:url';
import threads from 'node:worker_threads';

let workers = 0;
const Own = threads.Worker;
process.getBuiltinModule('node:worker_threads').Worker = class extends Own {
  constructor(...given) {
    super(...given);
    workers++;
  }
};
const { load } = await import(pathToFileURL(process.argv[2]).href);
const model = await load({ threads: 2 });
const { loss } = await model.train({ x: new Float32Array(32).fill(1), y: new Float32Array(8) });
const { adapter } = model;
process.stdout.write(JSON.stringify({ workers, threads: adapter.threads, loss: loss[0] }));
