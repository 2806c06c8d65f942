// What the parts of a bundle's page share: the model, the data it trains on, and what both ask of
// the page. `plan`, `kernels`, `source` and `load` are defined above. A part shows something when
// `page.when` calls it; no part draws in the card of another.

const entries = Object.keys(plan.entries);
const trainer = entries.find(name => plan.entries[name].training);
const others = entries.filter(name => !plan.entries[name].training);

const page = {
  /** Since `loaded`. */
  model: undefined,
  /** Whether everything is shown. */
  isReady: false,
  /**
   * What Train uses: `train` and `heldOut` (null: none) are arrays by input, `label` says what they
   * are, `isInvented` that they were generated. null: there is no data, and Train is off.
   */
  data: null,
  /** The AbortController of a training that runs, else null. */
  running: null,
  /** Resolves when the last training has ended. */
  ended: Promise.resolve(),
  /** Listeners by event: see `when`. */
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
   */
  when(event, listener) {
    page.listeners[event] = [...(page.listeners[event] ?? []), listener];
  },
  async announce(event) {
    for (const listener of page.listeners[event] ?? []) await listener();
  },
  /** Trains on `data` from now on; `null` if there is none, as after a file that was refused. */
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
  /** Steps made so far. */
  get step() {
    return ownOf(page.model?.progress.steps ?? {}, trainer) ?? 0;
  },
  /** Back to the initial values, or to those of a seed, and to step 0. */
  async reset(seed) {
    await page.stop();
    await (seed === undefined ? page.model.reset() : page.model.reset(seed));
    await page.announce('reset');
    await page.announce('values');
  },
};
