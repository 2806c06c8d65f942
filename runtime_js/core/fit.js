// `fit`: a training that is awaited as a whole, or read report by report. It begins when it is first
// awaited or read.

/** @typedef {{reports: () => AsyncGenerator<any, void, void>, history: (left: any) => Promise<any>}} Startable */

/** @param {() => Promise<Startable>} make is called at the beginning */
export function startable(make) {
  /** @type {Promise<Startable> | undefined} */
  let opening;
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
