// `fit`: a training that is awaited as a whole, or read report by report. It begins when it is first
// awaited or read.

import { loadFit } from './parts.js';

/** @import { Session } from './session.js' */

/**
 * @param {[session: Session, model: any, data: any, options?: any]} given where `model` is what
 *   callers see of the session
 */
export function fit(...given) {
  /** @type {ReturnType<typeof make> | undefined} */
  let opening;
  const make = async () => new (await loadFit()).Run(...given);
  const open = () => {
    opening ??= make();
    return opening;
  };
  async function* read() {
    yield* (await open()).reports();
  }
  const reports = read();
  const ended = async () => (await open()).history(reports);
  return Object.assign(reports, {
    // biome-ignore lint/suspicious/noThenProperty: awaiting it trains to the end.
    then: (/** @type {any[]} */ ...handlers) => ended().then(...handlers),
    catch: (/** @type {any} */ handler) => ended().catch(handler),
    finally: (/** @type {any} */ handler) => ended().finally(handler),
  });
}
