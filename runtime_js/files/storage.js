// The browser's storage (IndexedDB): checkpoints, and the profiles that tuning chose.

import { fail, WgccError } from '../core/errors.js';
import { totalBytes } from '../core/plan.js';
import { restore, save } from './checkpoint.js';

/** @import { Session } from '../core/session.js' */

const DATABASE = 'wgcc';
const STORE = 'checkpoints';
/** What a page should not have in memory a second time. */
const LARGE_BYTES = 2 ** 23;
const NOT_HERE =
  'the browser keeps nothing for this page: it is in a private window, or the settings forbid it';
/** How long browsers take that decide by themselves, at most. */
const ANSWER_MS = 200;

/**
 * Stores a checkpoint in the browser; returns whether the browser promised not to evict it.
 * @param {Session} session @param {string} [key]
 */
export async function store(session, key = session.plan.model.name) {
  const blob = totalBytes(Object.values(session.values.tensors)) > LARGE_BYTES;
  const file = await save(session, { blob });
  await inStorage('readwrite', checkpoints => checkpoints.put(file, key));
  return isKept();
}

/** Firefox asks the user, who may never answer: nobody waits for that, least of all the model. */
async function isKept() {
  const asked = globalThis.navigator?.storage?.persist?.();
  const waited = new Promise(resolve => setTimeout(resolve, ANSWER_MS, false));
  return (await Promise.race([asked, waited])) ?? false;
}

/**
 * Restores what `store` stored, as `restore` does; false if there is nothing.
 * @param {Session} session @param {string} [key]
 */
export async function recall(session, key = session.plan.model.name) {
  const file = await inStorage('readonly', checkpoints => checkpoints.get(key));
  return file ? restore(session, file) : false;
}

/**
 * One operation on the storage.
 * @param {IDBTransactionMode} mode @param {(store: IDBObjectStore) => IDBRequest} act
 */
export async function inStorage(mode, act) {
  try {
    const { indexedDB } = globalThis;
    if (!indexedDB) fail('storage', '', NOT_HERE);
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    const database = await eventOf(opening, 'success');
    const transaction = database.transaction(STORE, mode);
    const request = act(transaction.objectStore(STORE));
    // Once the transaction has ended.
    database.close();
    await eventOf(transaction, 'complete');
    return request.result;
  } catch (/** @type {any} */ error) {
    throw error?.code === 'storage' ? error : new WgccError('storage', storageProblem(error));
  }
}

/** Why the storage failed, for whoever wanted to save. @param {any} error */
function storageProblem(error) {
  if (error?.name === 'QuotaExceededError') return 'the browser has no room left for this page';
  if (error?.name === 'SecurityError' || error?.name === 'InvalidStateError') return NOT_HERE;
  return `the browser's storage failed: ${error?.message || error}`;
}

/**
 * Resolves at an event of IndexedDB.
 * @param {any} target @param {string} event @returns {Promise<any>}
 */
function eventOf(target, event) {
  return new Promise((resolve, reject) => {
    target[`on${event}`] = () => resolve(target.result);
    target.onabort = target.onerror = () => reject(target.error);
  });
}
