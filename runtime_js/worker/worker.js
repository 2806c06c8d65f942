// `load({ worker: true })`: the model in a worker, with the same methods here.

import { withoutUnusual } from '../core/batches.js';
import { fail, WgccError } from '../core/errors.js';
import { startable } from '../core/fit.js';
import { languageMethods } from '../core/model.js';
import { loadCalls, loadData, loadFit } from '../core/parts.js';
import { RemoteTraining } from './remote_training.js';
import { Wire } from './wire.js';

/** @import { Bundle, LoadOptions } from '../core/loader.js' */
/** @import { Plan } from '../core/plan.js' */

/** Methods that the worker runs as they are called. */
const METHODS = [
  'callPrepared',
  'params',
  'state',
  'loadParams',
  'reset',
  'save',
  'restore',
  'store',
  'recall',
  'snapshot',
  'profile',
  'captured',
  'gradients',
  'apply',
  'undo',
];
const SCRIPT = 'wgcc/serve.js';
const REMEDY =
  'copy wgcc.js and the folder wgcc of the bundle beside the scripts that are built, or load ' +
  'without `worker`';
/** What a model has besides methods; the worker sends it with each answer. */
const FACTS = ['progress', 'adapter', 'classes'];
/** Methods that replace the model's values. */
const REPLACING = ['loadParams', 'restore', 'recall'];
const SETTINGS = ['checkFinite', 'preparation'];

/** @param {Bundle} bundle @param {LoadOptions} options @returns {Promise<any>} */
export async function openInWorker(bundle, { worker: _, signal, ...options }) {
  if (!bundle.worker || !globalThis.Worker)
    return fail('name', 'worker', 'needs workers of the web, which are not here');
  signal?.throwIfAborted();
  const tokens = async () => (await loadCalls()).tokensOf(bundle);
  const worker = startWorker(bundle);
  /** @type {RemoteModel} */
  const remote = new RemoteModel(
    bundle,
    new Wire(worker, (_method, [info]) => remote.lose(info)),
    worker,
    tokens,
    options,
  );
  worker.addEventListener('error', (/** @type {any} */ { message }) => {
    // A script that cannot be loaded has no message.
    if (message) remote.end('device-lost', `the worker failed: ${message}`);
    else remote.end('bundle', missingScript(bundle));
  });
  const stop = () => remote.end('closed', 'the loading was aborted');
  signal?.addEventListener('abort', stop);
  try {
    const { plan, constants, preparation, seal, kernels, weights, twin } = bundle;
    const sent = {
      plan,
      constants,
      preparation,
      seal,
      kernels,
      weights: weights?.(),
      twin: twin?.(),
      // The page has the tokens; the worker calls it.
      tokens: bundle.tokens && (() => ({ openTokens: () => callable(tokens()) })),
    };
    // Never released: `onProgress` is called again when a lost device is replaced.
    await remote.wire.hold('open', sent, options).value;
    return remote.model;
  } catch (error) {
    remote.end('closed', 'the model could not be loaded');
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

/** @param {Bundle} bundle @returns {Worker} */
function startWorker(bundle) {
  try {
    return /** @type {() => Worker} */ (bundle.worker)();
  } catch (error) {
    return fail('bundle', 'worker', `cannot be started: ${error}; ${REMEDY}`);
  }
}

/** @param {Bundle} bundle */
function missingScript({ weights, twin }) {
  const beside = weights?.() ?? twin?.();
  const place = beside instanceof URL ? new URL(SCRIPT, beside) : SCRIPT;
  return `worker: ${place}, or a script that it imports, cannot be loaded: ${REMEDY}`;
}

class RemoteModel {
  /** @type {Record<string, any>} */
  #facts = {};
  /** @type {WgccError | undefined} */
  #ended;
  /** @type {(info: any) => void} */
  #onLost = () => {};
  #lost = this.#newLost();

  /**
   * @param {Bundle} bundle @param {Wire} wire @param {Worker} worker @param {() => Promise<any>} tokens
   * @param {LoadOptions} options
   */
  constructor(bundle, wire, worker, tokens, options) {
    this.bundle = bundle;
    this.plan = bundle.plan;
    this.options = options;
    this.hasOtherValues = Boolean(options.weights);
    this.wire = wire;
    this.worker = worker;
    this.tokens = tokens;
    wire.onFacts = facts => {
      this.#facts = facts;
    };
    this.model = this.#model();
  }

  #newLost() {
    return new Promise(resolve => {
      this.#onLost = resolve;
    });
  }

  /** The worker says that its device was lost. @param {any} info */
  lose(info) {
    this.#onLost(info);
  }

  /** @param {string} code @param {string} text */
  end(code, text) {
    this.#ended ??= new WgccError(code, text);
    this.wire.fail(this.#ended);
    this.worker.terminate();
  }

  /** @param {string} method @param {any[]} given @returns {Promise<any>} */
  async call(method, ...given) {
    if (this.#ended) throw this.#ended;
    if (REPLACING.includes(method)) this.hasOtherValues = true;
    if (method === 'reset') this.hasOtherValues = Boolean(this.options.weights);
    try {
      return await this.wire.call(method, ...given);
    } catch (error) {
      // What the page's own signal was aborted with.
      for (const options of given) options?.signal?.throwIfAborted?.();
      throw error;
    }
  }

  /** What reading data needs to know of the model. */
  get known() {
    const { plan, hasOtherValues } = this;
    const { progress, preparation } = this.#facts;
    return { plan, hasOtherValues, progress, preparation };
  }

  /** What callers see. */
  #model() {
    const { plan } = this;
    /** @type {Record<string | symbol, any>} */
    const model = {
      plan,
      device: undefined,
      call: (/** @type {[string, any, any]} */ ...given) => this.#callEntry(...given),
      fit: (/** @type {any} */ data, /** @type {any} */ options) => this.#fit(data, options),
      generate: (/** @type {any} */ prompt, /** @type {any} */ options) =>
        this.iterate('generate', prompt, options),
      readData: async (/** @type {any} */ source, /** @type {any} */ options) =>
        (await loadData()).readData(source, plan, options, model.tokens, this.known),
      tokens: this.tokens,
      recover: () => this.#recover(),
      dispose: () => this.end('closed', 'the model was disposed'),
    };
    Object.defineProperty(model, 'lost', { get: () => this.#lost });
    for (const name of FACTS) Object.defineProperty(model, name, { get: () => this.#facts[name] });
    for (const name of SETTINGS) Object.defineProperty(model, name, this.#setting(name));
    for (const name of METHODS)
      model[name] = (/** @type {any[]} */ ...given) => this.call(name, ...given);
    Object.assign(model, languageMethods(this.bundle, model));
    if (Symbol.asyncDispose) model[Symbol.asyncDispose] = async () => model.dispose();
    for (const entryName of Object.keys(plan.entries))
      if (entryName !== 'then')
        model[entryName] ??= (/** @type {any[]} */ ...given) => model.call(entryName, ...given);
    return model;
  }

  /** @param {string} name @returns {PropertyDescriptor} */
  #setting(name) {
    return {
      get: () => this.#facts[name],
      set: value => {
        this.#facts = { ...this.#facts, [name]: value };
        this.call('set', name, value).catch(() => {});
      },
    };
  }

  /** @param {string} entryName @param {any} [inputs] @param {any} [options] */
  async #callEntry(entryName, inputs = {}, options = undefined) {
    if (options)
      fail('no-webgpu', entryName, 'runs in a worker, whose GPU buffers the page cannot use');
    return this.call('call', entryName, await withoutUnusual(this.plan, entryName, inputs));
  }

  /** @param {any} data @param {any} options */
  #fit(data, options) {
    return startable(async () => {
      const { Run } = await loadFit();
      return new Run(new RemoteTraining(this, data, options));
    });
  }

  async #recover() {
    const recovered = await this.call('recover');
    this.#lost = this.#newLost();
    return recovered;
  }

  /**
   * What a generator in the worker yields.
   * @param {string} method @param {any[]} given @returns {AsyncGenerator<any, any, void>}
   */
  async *iterate(method, ...given) {
    if (this.#ended) throw this.#ended;
    const { value: opening, release } = this.wire.hold('iterate', method, given);
    const signal = given.find(item => item?.signal)?.signal;
    let id;
    try {
      id = await opening;
      for (;;) {
        const { done, value } = await this.call('next', id);
        if (done) return value;
        yield value;
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      if (!this.#ended) await this.call('return', id).catch(() => {});
      release();
    }
  }
}

/** What writes text, as functions that can be called from a worker. @param {Promise<any>} opening */
async function callable(opening) {
  const tokens = await opening;
  return {
    encode: (/** @type {string} */ text) => tokens.encode(text),
    stream(/** @type {number[]} */ context) {
      const stream = tokens.stream(context);
      return { push: (/** @type {number} */ id) => stream.push(id), end: () => stream.end() };
    },
  };
}
