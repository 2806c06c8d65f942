// Digests by which people on different machines know that bundles, data and weights are equal.
// Mirrors digests.py.

import { CALLER_TYPES, fromWords, listOf } from '../core/arrays.js';
import { visitInputs } from '../core/batches.js';
import { fail } from '../core/errors.js';
import { decodeBase64, sha256Hex } from '../core/seal.js';

/** @import { Bundle } from '../core/loader.js' */
/** @import { Dtype, Plan, Tensor } from '../core/plan.js' */
/** @import { Session } from '../core/session.js' */

const encoder = new TextEncoder();

/** The digest of a bundle's plan, which has those of kernels and twin, and of its constants. @param {Bundle} bundle */
export async function bundleDigest({ plan, constants }) {
  const own = constants ? await sha256Hex(decodeBase64(constants)) : '-';
  return sha256Hex(encoder.encode(`${plan.sha256} ${own}\n`));
}

/**
 * For each input its type, how many numbers there are, and their digest.
 * @param {Plan} plan @param {string} entryName @param {any} arrays
 * @returns {Promise<Record<string, string>>}
 */
export async function dataDigests(plan, entryName, arrays) {
  const columns = visitInputs(plan, entryName, arrays, (value, tensor) => {
    const list = listOf(value, tensor);
    return list && { list, tensor };
  });
  if (!columns) return fail('receipt', 'data', 'of a receipt is arrays by input, whole data sets');
  /** @type {Record<string, string>} */
  const digests = {};
  for (const [name, { list, tensor }] of Object.entries(columns)) {
    const kind = CALLER_TYPES[tensor.dtype];
    // Data may be large: it is copied only where it has another type.
    const numbers = list instanceof kind ? list : kind.from(list);
    const digest = await sha256Hex(/** @type {BufferSource} */ (numbers));
    digests[name] = `${tensor.dtype} ${numbers.length} ${digest}`;
  }
  return digests;
}

/** The digest of all that lasts: parameters, state, and what the optimizer keeps. @param {Session} session */
export async function weightsDigest(session) {
  const { tensors } = session.values;
  const words = await session.locked(() => session.readAll());
  const lines = [];
  for (const name of Object.keys(words).sort()) {
    const { dtype, shape } = tensors[name];
    const digest = await sha256Hex(
      /** @type {BufferSource} */ (fromWords(words[name], tensors[name])),
    );
    lines.push(`${name} ${dtype} [${shape.join(', ')}] ${digest}\n`);
  }
  return sha256Hex(encoder.encode(lines.join('')));
}
