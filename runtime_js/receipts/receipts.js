// Receipts: what a training started from, and digests of its weights, for others to replay it. On
// the WebAssembly twin a training gives the same bits on every machine. Mirrors receipts.py.

import { DATA } from '../core/batches.js';
import { fail } from '../core/errors.js';
import { loadCheck } from '../core/parts.js';
import { bundleDigest, dataDigests, weightsDigest } from './digests.js';

/** @import { Session } from '../core/session.js' */
/** @import { Settings } from '../fit/training.js' */
/**
 * @typedef {{step: number, weights: string, loss?: number}} Point after so many steps: the digest of
 *   all that is trained, and the loss of the last step
 * @typedef {{model: string, entry: string, bundle: string, data: Record<string, string>,
 *   reading: string[], held_out: number | null, seed: number | null, every: number, wgcc: string}} Run
 * @typedef {{run: Run, device: string, exact: boolean, points: Point[]}} Receipt
 * @typedef {{step: number, loss?: number, isDue: boolean, isEnd: boolean}} Moment
 * @typedef {{exact: boolean, compared: number, equalUntil: number | null, parted: number | null}} Replayed
 * @typedef {object} Witness of a training
 * @property {Partial<Settings>} settings that the training must have
 * @property {(step: number) => number} until how many steps may follow before it looks again
 * @property {(moment: Moment) => Promise<{receipt?: string, replay?: Replayed} | undefined>} look
 * @property {boolean} isOver whether the training must end
 */

const FORMAT = 'wgcc receipt';
const VERSION = 1;
/** How many times in a training the weights are hashed, unless a period was given. */
const POINTS = 20;
/** How far losses of a GPU may be from those of another device. */
const LOSS_TOLERANCE = 0.01;

/**
 * @param {Session} session @param {string} entryName @param {any} data @param {Settings} options
 * @returns {Promise<Witness>}
 */
export async function openWitness(session, entryName, data, options) {
  refuseUnclear(options);
  const run = await runOf(session, entryName, data, options);
  const witness =
    options.replay === undefined
      ? new Recorder(session, run, options)
      : new Replay(session, run, await readReceipt(options.replay), options);
  const step = session.stepsOf(entryName);
  await witness.look({ step, isDue: true, isEnd: false });
  if (witness.isOver) {
    const other = `the weights differ from those of the receipt at step ${step}`;
    fail('receipt', 'replay', `cannot begin: ${other}: give its seed to load, or restore them`);
  }
  return witness;
}

/** @param {Settings} options */
function refuseUnclear({ receipt, replay }) {
  if (receipt && replay !== undefined)
    fail('receipt', 'receipt', 'and `replay` exclude each other');
  if (receipt && receipt !== true && !(Number.isInteger(receipt) && receipt > 0))
    fail('range', 'receipt', `is true or a whole number above 0, not ${receipt}`);
}

/**
 * @param {Session} session @param {string} entry @param {any} given @param {Settings} options
 * @returns {Promise<Run>}
 */
async function runOf({ bundle, plan }, entry, given, { seed, every = 10 }) {
  const data = await dataDigests(plan, entry, given?.[DATA] ? given.arrays : given);
  const facts = { model: plan.model.name, entry, bundle: await bundleDigest(bundle), data };
  return { ...facts, reading: [], held_out: null, seed: seed ?? null, every, wgcc: plan.generator };
}

/** Keeps the receipt of a training. @implements {Witness} */
class Recorder {
  settings = {};
  isOver = false;
  /** @type {Point[]} */
  #points = [];
  #period;

  /** @param {Session} session @param {Run} run @param {Settings} options */
  constructor(session, run, { receipt, steps, every = 10 }) {
    this.session = session;
    this.run = run;
    this.#period =
      typeof receipt === 'number' ? receipt : Math.floor((steps ?? 0) / POINTS) || every;
  }

  until() {
    return Infinity;
  }

  /** @param {Moment} moment */
  async look({ step, loss, isDue, isEnd }) {
    // A device that was lost takes reports back.
    this.#points = this.#points.filter(point => point.step < step);
    const last = this.#points.at(-1)?.step ?? -Infinity;
    if (!isEnd && !(isDue && step - last >= this.#period)) return;
    const weights = await weightsDigest(this.session);
    this.#points.push({ step, weights, ...(Number.isFinite(loss) && { loss }) });
    return { receipt: await this.#text() };
  }

  async #text() {
    const { name: device, kind } = this.session.machine.adapter;
    const { run } = this;
    const points = this.#points;
    const content = {
      format: FORMAT,
      version: VERSION,
      run,
      device,
      exact: kind === 'wasm',
      points,
    };
    const sha256 = (await loadCheck()).contentDigest(content);
    return `${JSON.stringify({ ...content, sha256 }, null, 1)}\n`;
  }
}

/** Compares a training with a receipt; it is over where they part. @implements {Witness} */
class Replay {
  isOver = false;
  #compared = 0;
  /** @type {number | null} */
  #equalUntil = null;
  /** @type {number | null} */
  #parted = null;

  /** @param {Session} session @param {Run} run @param {Receipt} receipt @param {Settings} options */
  constructor(session, run, receipt, { resume }) {
    refuseOther(receipt.run, run);
    this.session = session;
    this.points = receipt.points;
    this.exact = receipt.exact && session.machine.adapter.kind === 'wasm';
    const { seed, every, entry } = receipt.run;
    const first = resume ? 0 : session.stepsOf(entry);
    const steps = receipt.points[receipt.points.length - 1].step - first;
    /** @type {Partial<Settings>} */
    this.settings = { steps, every, seed: seed ?? undefined };
  }

  /** @param {number} step */
  until(step) {
    return (this.points.find(point => point.step > step)?.step ?? Infinity) - step;
  }

  /** @param {Moment} moment */
  async look({ step, loss }) {
    const point = this.points.find(one => one.step === step);
    const isEqual = point && (await this.#isEqual(point, loss));
    if (isEqual === undefined) return;
    if (isEqual) {
      this.#compared++;
      this.#equalUntil = step;
    } else this.#parted = step;
    this.isOver = !isEqual;
    const [compared, equalUntil, parted] = [this.#compared, this.#equalUntil, this.#parted];
    return { replay: { exact: this.exact, compared, equalUntil, parted } };
  }

  /** @param {Point} point @param {number} [loss] */
  async #isEqual(point, loss) {
    if (this.exact) return (await weightsDigest(this.session)) === point.weights;
    if (loss === undefined || point.loss === undefined) return;
    return Math.abs(loss - point.loss) <= LOSS_TOLERANCE * Math.max(1, Math.abs(point.loss));
  }
}

/** Refuses what is damaged or was edited. @param {string} text @returns {Promise<Receipt>} */
async function readReceipt(text) {
  const { sha256, ...content } = parsed(text);
  if (content.format !== FORMAT) fail('receipt', 'replay', 'is no receipt of a training');
  if (content.version !== VERSION) {
    const other = `is a receipt of version ${content.version}, not ${VERSION}`;
    fail('receipt', 'replay', `${other}: use the wgcc that made it`);
  }
  if (sha256 !== (await loadCheck()).contentDigest(content))
    fail('receipt', 'replay', 'was changed after it was made (its SHA-256 differs)');
  if (!isReceipt(content)) fail('receipt', 'replay', 'lacks parts of a receipt, or has others');
  return content;
}

/** @param {string} text @returns {any} */
function parsed(text) {
  try {
    const content = JSON.parse(text);
    if (content?.constructor === Object) return content;
  } catch {}
  return fail('receipt', 'replay', 'is not the text of a receipt');
}

/** @param {any} content */
function isReceipt({ run, points, exact, device }) {
  const texts = [run?.model, run?.entry, run?.bundle, run?.wgcc, device];
  const isRun =
    [...texts, ...Object.values(Object(run?.data))].every(text => typeof text === 'string') &&
    Number.isInteger(run.every) &&
    run.every > 0 &&
    (run.seed === null || run.seed >>> 0 === run.seed);
  if (!isRun || typeof exact !== 'boolean' || !Array.isArray(points) || !points.length)
    return false;
  const isLater = (/** @type {any} */ step, /** @type {number} */ i) =>
    Number.isInteger(step) && step > (points[i - 1]?.step ?? -1);
  return points.every((point, i) => isLater(point?.step, i) && typeof point.weights === 'string');
}

/** Refuses to replay with another bundle or other data; says what differs. @param {Run} was @param {Run} run */
function refuseOther(was, run) {
  for (const name of /** @type {const} */ (['model', 'entry']))
    if (was[name] !== run[name])
      fail('receipt', name, `of the receipt is \`${was[name]}\`, not \`${run[name]}\``);
  if (was.bundle !== run.bundle)
    fail(
      'receipt',
      'bundle',
      `of the receipt is another one (by ${was.wgcc}, this by ${run.wgcc})`,
    );
  for (const name of new Set([...Object.keys(was.data), ...Object.keys(run.data)]))
    if (was.data[name] !== run.data[name]) {
      const [before, now] = [was, run].map(({ data }) => data[name] ?? 'missing');
      fail('receipt', name, `is other data than that of the receipt: ${now}, not ${before}`);
    }
}
