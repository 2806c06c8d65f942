// The bundle inside this page, for the scripts below: `load(options)`, `plan`, `kernels`, `source`,
// and `files` of data, which `readTensors` reads. An exported page also has a checkpoint, `trained`.
const isServed = false;
const plan = __PLAN__;
const kernels = __KERNELS__;
const source = __SOURCE__;
const decoded = text => text && wgcc_js.decodeBase64(text);
const weights = __WEIGHTS__;
// Many weights are a file beside the page: `fileBeside` is its name, size and, once it was chosen, bytes.
const fileBeside = __FILE_BESIDE__;
const twin = __TWIN__;
const constants = __CONSTANTS__;
const seal = __SEAL__;
const files = __FILES__;
const trained = undefined;
// For `load({ worker: true })`: a page from a disk starts no worker from a file.
const startWorker = () => {
  const text = `'use strict'; (${runtime})();`;
  const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
  return new Worker(url, { name: 'wgcc' });
};
const load = options =>
  wgcc_js.open(
    {
      plan,
      constants,
      preparation: __PREPARATION__,
      seal,
      kernels: async () => kernels,
      weights: () =>
        fileBeside
          ? (fileBeside.bytes ?? new URL(fileBeside.name, location.href))
          : decoded(weights),
      twin: () => decoded(twin),
      worker: startWorker,
    },
    options,
  );
