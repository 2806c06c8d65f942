// What `load` of a bundle returns: every entry is a method, and so is all of `Loaded` in
// index.d.ts. Methods need no `this`, so that they can be passed as functions.

import { fail } from './errors.js';
import { startable } from './fit.js';
import { loadCalls, loadData, loadFiles, loadFit, loadInspect } from './parts.js';

/** @import { Bundle } from './loader.js' */
/** @import { Session } from './session.js' */

/** Methods that are functions of files/files.js, run one at a time. */
const FILE_METHODS = /** @type {const} */ ([
  'params',
  'state',
  'loadParams',
  'save',
  'restore',
  'store',
  'recall',
]);

/** Methods that are functions of calls/calls.js. */
const CALL_METHODS = /** @type {const} */ (['captured', 'gradients', 'apply', 'undo', 'tokens']);

/** Methods that are functions of adapters/adapters.js. */
const ADAPTER_METHODS = ['loadAdapter', 'saveAdapter', 'mergeAdapter'];

/** What callers may change. */
const SETTINGS = /** @type {const} */ (['checkFinite', 'preparation']);

/** @param {Session} session @returns {any} */
export function createModel(session) {
  /** @type {Record<string | symbol, any>} */
  const model = {
    plan: session.plan,
    get device() {
      return session.machine.gpu;
    },
    get lost() {
      return session.machine.lost;
    },
    get adapter() {
      return session.machine.adapter;
    },
    get progress() {
      return session.progress;
    },
    get classes() {
      return session.classes;
    },
    call: (/** @type {[string, any, any]} */ ...given) => call(session, ...given),
    callPrepared: (/** @type {string} */ entryName, /** @type {any} */ inputs = {}) =>
      session.call(entryName, inputs),
    readData: async (/** @type {any} */ source, /** @type {any} */ options) =>
      (await loadData()).readData(source, session.plan, options, model.tokens, session),
    fit: (/** @type {any} */ data, /** @type {any} */ options) =>
      startable(async () => (await loadFit()).openRun(session, model, data, options)),
    reset: (/** @type {number} */ seed, /** @type {{own?: boolean}} */ { own } = {}) =>
      session.locked(() => session.reset(seed, own)),
    snapshot: () => session.locked(() => session.takeSnapshot()),
    recover: (/** @type {any} */ choice) => session.locked(() => session.recover(choice)),
    profile: (/** @type {string} */ entryName, /** @type {number} */ repeat) =>
      session.locked(async () => (await loadInspect()).profile(session, entryName, repeat)),
    generate: (/** @type {any[]} */ ...given) => generate(session, given),
    dispose: () => session.dispose(),
  };
  for (const name of SETTINGS) Object.defineProperty(model, name, settingOf(session, name));
  for (const name of FILE_METHODS)
    model[name] = (/** @type {any[]} */ ...given) =>
      session.locked(async () => {
        const method = /** @type {any} */ (await loadFiles())[name];
        return method(session, ...given);
      });
  // For `await using model = await load()`.
  if (Symbol.asyncDispose) model[Symbol.asyncDispose] = async () => session.dispose();
  // With a method `then`, `await` would treat the model as a promise.
  for (const entryName of Object.keys(session.plan.entries))
    if (entryName !== 'then')
      model[entryName] ??= (/** @type {any[]} */ ...given) => model.call(entryName, ...given);
  return Object.assign(model, callMethods(session), languageMethods(session.bundle, model));
}

/** Methods of language models, which use the others. @param {Bundle} bundle @param {any} model */
export function languageMethods(bundle, model) {
  const methodOf =
    (/** @type {string} */ name) =>
    async (/** @type {any[]} */ ...given) =>
      /** @type {any} */ (await adaptersOf(bundle))[name](model, ...given);
  return {
    chat: async (/** @type {any} */ options) =>
      (await loadCalls()).openChat(bundle, model, options),
    ...Object.fromEntries(ADAPTER_METHODS.map(name => [name, methodOf(name)])),
  };
}

/** They are beside the tokens: bundles of other models have none. @param {Bundle} bundle */
async function adaptersOf({ plan, tokens }) {
  const text = tokens?.() ?? fail('text', 'adapter', `is for language models: ${plan.model.name}`);
  return (await text).loadAdapters();
}

/** @param {Session} session @param {any[]} given prompt and options */
async function* generate(session, given) {
  const [prompt, options] = given;
  return yield* (await loadCalls()).generate(session, prompt, options);
}

/** @param {Session} session @returns {Record<string, (...given: any[]) => Promise<any>>} */
function callMethods(session) {
  const methodOf =
    (/** @type {typeof CALL_METHODS[number]} */ name) =>
    async (/** @type {any[]} */ ...given) => {
      const method = /** @type {any} */ (await loadCalls())[name];
      return method(session, ...given);
    };
  return Object.fromEntries(CALL_METHODS.map(name => [name, methodOf(name)]));
}

/**
 * @param {Session} session @param {string} entryName @param {any} [inputs] @param {any} [options]
 */
async function call(session, entryName, inputs = {}, options = undefined) {
  if (options) return (await loadCalls()).callWith(session, entryName, inputs, options);
  if (session.preparation) return (await loadData()).callRaw(session, entryName, inputs);
  return session.call(entryName, inputs);
}

/** @param {Session} session @param {typeof SETTINGS[number]} name @returns {PropertyDescriptor} */
function settingOf(session, name) {
  return {
    get: () => session[name],
    set: value => {
      session[name] = value;
    },
  };
}
