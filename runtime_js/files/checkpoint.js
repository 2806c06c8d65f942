// Reads, saves and restores a model. These are methods of a model: see core/model.js.

import { fromWords } from '../core/arrays.js';
import { isOnlyNames } from '../core/class_names.js';
import { fail } from '../core/errors.js';
import { filterRecord, mapRecord } from '../core/records.js';
import { noProgress } from '../core/session.js';
import { withAverages } from './averages.js';
import { checkIdentity, isOptimizerState, notesOn, optimizerKinds } from './identity.js';
import { leftOut, noteChanged, omittedNow } from './left_out.js';
import { piecesAt } from './sources.js';
import { wordsOf } from './stored_values.js';
import { streamTensors } from './tensor_stream.js';
import { joined, TensorWriter } from './tensor_writer.js';

/** @import { NamedWords, Values } from '../core/arrays.js' */
/** @import { Tensor, Tensors } from '../core/plan.js' */
/** @import { Session } from '../core/session.js' */

/** Parameters by name, as copies. @param {Session} session @param {string[]} [names] default: all */
export function params(session, names) {
  return read(session, isOf('param', names));
}

/**
 * State by name, optimizer moments included, as copies.
 * @param {Session} session @param {string[]} [names] default: all
 */
export function state(session, names) {
  return read(session, isOf('state', names));
}

/**
 * @param {string} role @param {string[] | undefined} names
 * @returns {(tensor: Tensor, name: string) => boolean}
 */
function isOf(role, names) {
  const wanted = names && new Set(names);
  return (tensor, name) => tensor.role === role && (!wanted || wanted.has(name));
}

/**
 * @param {Session} session @param {(tensor: Tensor, name: string) => boolean} isWanted
 * @returns {Promise<Record<string, Values>>}
 */
async function read(session, isWanted) {
  const { tensors } = session.plan;
  return mapRecord(await session.readAll(isWanted), (words, name) =>
    fromWords(words, tensors[name]),
  );
}

/**
 * Writes parameters (or state) by name; `strict`: all parameters, and no unknown name.
 * @param {Session} session @param {Record<string, any>} given @param {{strict?: boolean}} [options]
 */
export async function loadParams(session, given, { strict = true } = {}) {
  const { tensors } = session.values;
  const isMissing = (/** @type {string} */ name) =>
    tensors[name].role === 'param' && !Object.hasOwn(given, name);
  const missing = strict && Object.keys(tensors).find(isMissing);
  if (missing) fail('weights', missing, 'is missing');
  const known = Object.entries(given).filter(([name]) => strict || Object.hasOwn(tensors, name));
  const words = await wordsOf(Object.fromEntries(known), tensors, 'what was given');
  session.values.stored.again?.note(words);
  await session.writeAll(words);
  session.hasOtherValues = true;
  noteChanged(session, words);
  await keepForRecovery(session, words);
}

/**
 * What was written belongs to the snapshot; another one is read from the device only if the last one
 * is of an earlier step.
 * @param {Session} session @param {NamedWords} words
 */
async function keepForRecovery(session, words) {
  const { snapshot, progress } = session;
  const isCurrent = JSON.stringify(snapshot.progress.steps) === JSON.stringify(progress.steps);
  if (!isCurrent) return session.takeSnapshot();
  const copies = mapRecord(words, list => list.slice());
  session.snapshot = { ...snapshot, words: { ...snapshot.words, ...copies } };
}

/**
 * A safetensors file, the same as Python's; with `optimizer`, training can resume from it with the
 * same bits. Weights of the bundle that are only corrected, as with LoRA, are left out. As a `blob` it is read from the device piece by piece, so that the page's memory never
 * holds all of it.
 * @param {Session} session @param {{optimizer?: boolean, blob?: boolean}} [options]
 * @returns {Promise<Uint8Array | Blob>}
 */
export async function save(session, { optimizer = true, blob = false } = {}) {
  const { plan, progress, values, preparation } = session;
  const omitted = omittedNow(session);
  const tensors = filterRecord(
    values.tensors,
    (_, name) => !omitted.has(name) && (optimizer || !isOptimizerState(name)),
  );
  const { steps, position, seed } = progress;
  // Without the optimizer's state a training cannot resume, so no step is recorded.
  const isResumable = optimizer || !Object.keys(plan.optimizer ?? {}).length;
  const training = { optimizer: optimizerKinds(plan), steps, data: { position, seed } };
  const facts = {
    model: plan.model.name,
    source: plan.model.sha256,
    ...(isResumable ? training : {}),
  };
  const file = new TensorWriter(tensors, blob ? bytes => new Blob([bytes]) : undefined);
  await session.readPieces(tensors, (name, words) => file.add(name, words));
  const parts = file.end(facts, preparation);
  return blob ? readableBlob(parts) : joined(/** @type {Uint8Array[]} */ (parts));
}

/** A browser without room for a blob says so only when it is read. @param {BlobPart[]} parts */
async function readableBlob(parts) {
  const blob = new Blob(parts);
  await blob
    .slice(-1)
    .arrayBuffer()
    .catch(() => fail('memory', '', `the browser has no room for a file of ${blob.size} bytes`));
  return blob;
}

/**
 * Restores what `save` (here or in Python) wrote, for the same model with the same kinds of
 * optimizers. `weightsOnly` loads parameters and state of any model that has the same ones;
 * optimizers and steps are reset. So does `weights: 'ema'`, with moving averages instead of the
 * parameters.
 * @param {Session} session @param {ArrayBuffer | ArrayBufferView | Blob} source
 * @param {{weightsOnly?: boolean, weights?: string}} [options]
 * @returns {Promise<string[]>} what the user should know about the checkpoint, if anything
 */
export async function restore(session, source, options = {}) {
  const { weights } = options;
  const weightsOnly = options.weightsOnly || weights !== undefined;
  const file = await streamTensors(piecesAt(source, {}), 'checkpoint');
  const { facts, progress } = file;
  const tensors = weights === undefined ? file.tensors : withAverages(file.tensors, weights);
  const persistent = session.values.tensors;
  if (!weightsOnly) checkIdentity(session.plan, persistent, tensors, facts);
  const taken = filterRecord(tensors, (_, name) => !weightsOnly || !isOptimizerState(name));
  const words = await wordsOf(taken, persistent, 'the checkpoint', true);
  const omitted = leftOut(session.plan, persistent);
  const missing = Object.keys(persistent).find(
    name => !words[name] && !omitted.has(name) && !isOptimizerState(name),
  );
  if (missing) fail('weights', missing, 'is not in the checkpoint');
  const start = await session.values.words();
  const copies = weightsOnly ? copiesOf({ ...start, ...words }, persistent) : {};
  session.preparation = file.preparation ?? ownNames(session);
  session.hasOtherValues = true;
  noteChanged(session, words);
  const others = { ...copies, ...words };
  await session.writeAll(start, weightsOnly ? noProgress() : progress, others);
  return weightsOnly ? [] : notesOn(session.plan, facts);
}

/** Names of classes that the bundle was built with, for values that come without. */
function ownNames(/** @type {Session} */ { values, bundle }) {
  const own = values.stored.preparation ?? bundle.preparation;
  return own && isOnlyNames(own) ? own : null;
}

/**
 * State that begins as a copy of a parameter, such as its average.
 * @param {Record<string, any>} words @param {Tensors} persistent
 */
function copiesOf(words, persistent) {
  const origins = mapRecord(persistent, ({ init }) => (init?.kind === 'copy' && init.of) || '');
  return mapRecord(filterRecord(origins, Boolean), of => words[of]);
}
