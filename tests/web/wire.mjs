// Whether calls between threads leave anything behind: JSON out. Functions and signals that a call
// passes are forgotten at its end, or, if they are held, when they are released.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Wire } from '../../runtime_js/worker/wire.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');
const { port1, port2 } = new MessageChannel();
const page = new Wire(started(port1), () => undefined);
/** Signals that the other end has made. */
const made = [];
new Wire(started(port2), async (method, [{ run, signal }]) => {
  made.push(new WeakRef(signal));
  return method === 'run' ? run(20) : 'opened';
});

function started(port) {
  port.start();
  return port;
}
const later = ms => new Promise(resolve => setTimeout(resolve, ms));

/** Keeps no reference to what it passed. */
async function use(method) {
  const stopper = new AbortController();
  const run = number => number + 1;
  const given = { run, signal: stopper.signal };
  if (method === 'run') return { value: await page.call('run', given), refs: refsOf(given) };
  const { value, release } = page.hold('open', given);
  return { value: await value, release, refs: refsOf(given) };
}
const refsOf = given => Object.values(given).map(item => new WeakRef(item));

async function alive(refs) {
  for (let i = 0; i < 3; i++) {
    await later(10);
    collect();
  }
  return refs.filter(ref => ref.deref()).length;
}

const called = await use('run');
const afterCall = await alive([...called.refs, ...made]);
const held = await use('open');
const whileHeld = await alive([...held.refs, ...made]);
held.release();
delete held.release;
const afterRelease = await alive([...held.refs, ...made]);
process.stdout.write(
  JSON.stringify({ value: called.value, opened: held.value, afterCall, whileHeld, afterRelease }),
  () => process.exit(0),
);
