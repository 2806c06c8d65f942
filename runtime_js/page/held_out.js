// The loss on rows that the model does not train on: by an entry that computes it, as `eval` does in
// most models. Without one, by a training step that is undone: its loss is that of the weights before
// it.

/** Rows that are measured at most; more take long. */
const MOST_MEASURED = 2000;
/** Batches for which a step is undone, and bytes of values that this may copy each time. */
const MOST_UNDONE = 4;
const MOST_COPIED = 2 ** 25;

const isOneNumber = id => id && !plan.tensors[id].shape.length;
const scalarsOf = entry =>
  Object.keys(plan.entries[entry].outputs).filter(key =>
    isOneNumber(plan.entries[entry].outputs[key]),
  );

/** Whether an entry computes the loss of the entry that trains, from the same inputs. */
function measuresLoss(entry) {
  const own = plan.entries[entry];
  const inputs = Object.keys(own.inputs);
  const isSame = key =>
    ownOf(plan.entries[trainer].inputs, key) &&
    `${inputRow(entry, key)}` === `${inputRow(trainer, key)}`;
  const [loss] = scalarsOf(trainer).includes('loss') ? ['loss'] : scalarsOf(trainer);
  return (
    !own.writes.length && inputs.length && inputs.every(isSame) && scalarsOf(entry).includes(loss)
  );
}
const evaluator =
  trainer && [...others].sort((a, b) => (b === 'eval') - (a === 'eval')).find(measuresLoss);

const heldOut = {
  /** The measurement that runs: whoever saves values waits for it. */
  running: Promise.resolve(),

  /** Numbers by name, or undefined. */
  measure(arrays) {
    const job = evaluator ? measureByEntry(arrays) : measureByUndoneSteps(arrays);
    heldOut.running = job.catch(() => {});
    return job;
  },
  /** Why there is no second curve; empty if there is one. */
  reason(arrays) {
    if (!arrays) return '';
    if (!evaluator) return copiedBytes() > MOST_COPIED ? TOO_LARGE : '';
    const { rows } = plan.entries[evaluator];
    const isEnough = rows?.outputs || rowCount(evaluator, arrays) >= (rows?.count ?? 1);
    return isEnough ? '' : `\`${evaluator}\` measures ${rows.count} rows; fewer are held out.`;
  },
};
const TOO_LARGE =
  'This model has no entry that computes the loss without training, such as `eval`.';

/** The first rows of arrays, repeated if there are fewer. */
function rowsFrom(entry, arrays, start, count) {
  const found = Object.keys(plan.entries[entry].inputs).map(key => {
    const size = elementCount(inputRow(entry, key));
    const list = arrays[key];
    if (!hasRows(entry, key)) return [key, list];
    const end = (start + count) * size;
    if (end <= list.length) return [key, list.subarray(start * size, end)];
    const at = i => list[(start * size + i) % list.length];
    return [key, list.constructor.from({ length: count * size }, (_, i) => at(i))];
  });
  return Object.fromEntries(found);
}

/** All rows at once, or, if the entry mixes rows, the mean over all whole batches. */
function measureByEntry(arrays) {
  const { rows } = plan.entries[evaluator];
  const most = Math.min(rowCount(evaluator, arrays), MOST_MEASURED);
  const count = rows && !rows.outputs ? rows.count : most;
  return meanOfBatches(Math.max(1, Math.floor(most / count)), i =>
    page.model.callPrepared(evaluator, rowsFrom(evaluator, arrays, i * count, count)),
  );
}

async function measureByUndoneSteps(arrays) {
  const batch = plan.entries[trainer].rows?.count ?? 1;
  const times = Math.max(1, Math.min(MOST_UNDONE, Math.floor(rowCount(trainer, arrays) / batch)));
  await page.model.snapshot();
  return meanOfBatches(times, i => undone(rowsFrom(trainer, arrays, i * batch, batch)));
}
/** The mean of each number that `outputsOf` a batch gives. */
async function meanOfBatches(times, outputsOf) {
  const sums = {};
  for (let i = 0; i < times; i++)
    for (const [key, value] of Object.entries(firstNumbers(await outputsOf(i))))
      sums[key] = (sums[key] ?? 0) + value / times;
  return sums;
}
async function undone(rows) {
  try {
    return await page.model.call(trainer, rows);
  } finally {
    await page.model.recover();
  }
}
const firstNumbers = outputs =>
  Object.fromEntries(
    Object.entries(outputs)
      .filter(([, list]) => list.length === 1)
      .map(([key, [value]]) => [key, value]),
  );
const copiedBytes = () =>
  Object.values(plan.tensors)
    .filter(({ role }) => role === 'param' || role === 'state')
    .reduce((sum, { shape }) => sum + 4 * elementCount(shape), 0);
