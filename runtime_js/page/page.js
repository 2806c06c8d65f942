// What the parts of a bundle's page share: the model, the data it trains on, and what both ask of
// the page. `plan`, `kernels`, `source` and `load` are defined above. A part shows something when
// `page.when` calls it; no part calls another.

const entries = Object.keys(plan.entries);
const trainer = entries.find(name => plan.entries[name].training);
const others = entries.filter(name => !plan.entries[name].training);

const page = {
  /** Since `loaded`. */
  model: undefined,
  /**
   * What Train uses: `train` and `heldOut` (null: none) are arrays by input, `label` says what they
   * are, `isInvented` that they were generated. null: there is no data, and Train is off.
   */
  data: null,
  /** Ends a training that runs, at its next step. */
  running: null,
  /** Listeners by event: see `when`. */
  listeners: {},

  /**
   * Calls `listener` at each `loaded` (once), `data` (after `use`), `values` (the model's values are
   * others: restored, reset) and `running` (training began or ended).
   */
  when(event, listener) {
    page.listeners[event] = [...(page.listeners[event] ?? []), listener];
  },
  async announce(event) {
    for (const listener of page.listeners[event] ?? []) await listener();
  },
  /** Trains on `data` from now on; `null` if there is none, as after a file that was refused. */
  use(data) {
    page.stop();
    page.data = data;
    return page.announce('data');
  },
  stop() {
    page.running?.abort();
  },
  /** Steps made so far. */
  get step() {
    return ownOf(page.model?.progress.steps ?? {}, trainer) ?? 0;
  },
  /** Back to the initial values, or to those of a seed, and to step 0. */
  async reset(seed) {
    page.stop();
    await (seed === undefined ? page.model.reset() : page.model.reset(seed));
    await page.announce('values');
  },
};
