// The state of a bundle's page: what its cards draw, and share. `when` says when a card draws.

import { ownOf } from '../core/records.js';
import { formOf } from '../data/form.js';
import { plan } from './bundle.js';

/** @import { DataSource } from '../data/read.js' */
/** @import { Data } from '../data/result.js' */
/**
 * @typedef {Record<string, any>} Arrays by input
 * @typedef {'loaded' | 'data' | 'running' | 'learned' | 'reset' | 'values' | 'look'} Happening
 * @typedef {{train: any, heldOut: Arrays | null, label: string, isInvented: boolean}} PageData
 *   arrays by input, or `Data`; what they are called; whether they were generated
 * @typedef {() => any} Act
 */

export const entries = Object.keys(plan.entries);
/** The entry that trains; '' if there is none. */
export const trainer = entries.find(name => plan.entries[name].training) ?? '';
export const others = entries.filter(name => !plan.entries[name].training);

const form = formOf(plan, () => page.model.tokens());

export const page = {
  /** Since `loaded`. @type {any} */
  model: undefined,
  /** Whether everything is shown. */
  isReady: false,
  /** What Train uses; null: there is no data, and Train is off. @type {PageData | null} */
  data: null,
  /** The training that runs. @type {AbortController | null} */
  running: null,
  /** Resolves when the last training has ended. @type {Promise<void>} */
  ended: Promise.resolve(),
  /** Resolves when the held-out rows were measured: whoever saves values waits for it. @type {Promise<void>} */
  measured: Promise.resolve(),

  /** The training: its first and last step, milliseconds of a step, whether it ended with the GPU. */
  training: {
    from: 0,
    until: 0,
    ms: 1,
    isCut: false,
    predictedAt: 0,
    measuredAt: 0,
    measureTook: 0,
  },
  /** By output, [step, value] of each report: of the rows that train, and of those held out. */
  curves: {
    /** @type {Record<string, [number, number][]>} */
    training: {},
    /** @type {Record<string, [number, number][]>} */
    heldOut: {},
  },

  /** The card of the data. */
  panel: {
    /** What the model knows of data when it starts anew. */
    form,
    /** The files, which can be read again with other options. @type {DataSource | null} */
    source: null,
    /** What was read, and what it is called. @type {Data | null} */
    read: null,
    label: '',
    /** What people chose. @type {any} */
    options: {},
    /** Counts readings, because the result of an older one must not be used. */
    readings: 0,
    seed: 1,
    /** The data that the bundle was built with. @type {Data | null} */
    built: null,
    /** Names of classes that it was built with, without data. @type {any} */
    names: null,
    /** Percent of the rows that are held out. */
    share: '',
    isRefused: false,
    /** Whether there is a question about the data that was read. */
    isAsking: false,
    /** What to train with once the model starts again. @type {Act | null} */
    afterReset: null,
    /** Reads files as if a person had chosen them. @type {(files: any[], options?: any) => any} */
    take: () => {},
  },

  /** The controls, as a link says them. */
  settings: () => '',

  /** Saves: see saving.js. @type {any} */
  saves: undefined,

  /** @type {Partial<Record<Happening, Act[]>>} */
  listeners: {},
  /**
   * Calls `listener` at each
   * `loaded`: the model is there (once);
   * `data`: after `use`;
   * `running`: training began or ended;
   * `learned`: now and then while it trains;
   * `reset`: back to step 0; `values` follows;
   * `values`: the model's values are others: trained, restored, reset;
   * `look`: canvases are to be drawn again, in other colours or another size.
   * @param {Happening} happening @param {Act} listener
   */
  when(happening, listener) {
    page.listeners[happening] = [...(page.listeners[happening] ?? []), listener];
  },
  /** @param {Happening} happening */
  async announce(happening) {
    for (const listener of page.listeners[happening] ?? []) await listener();
  },
  /** Trains on `data` from now on; null if there is none. @param {PageData | null} data */
  async use(data) {
    // Train is off at once, also while the last training ends.
    page.data = null;
    page.announce('running');
    await page.stop();
    page.data = data;
    await page.announce('data');
  },
  /** Ends a training that runs, after its current steps. */
  async stop() {
    page.running?.abort();
    await page.ended;
  },
  /** Steps made so far. @returns {number} */
  get step() {
    return ownOf(page.model?.progress.steps ?? {}, trainer) ?? 0;
  },
  /** Back to step 0 and the initial values, or those of a seed. @param {number} [seed] */
  async reset(seed) {
    await page.stop();
    await (seed === undefined ? page.model.reset() : page.model.reset(seed));
    await page.announce('reset');
    await page.announce('values');
  },
};

/** The inputs that have one row per example, and the one that is learned. */
export const rowInputs = trainer ? form.entry(trainer).rows : [];
export const learnedInput = trainer ? form.target(form.entry(trainer)) : undefined;
