// The bundle inside this page, for the scripts below: `load(options)`, `plan`, `kernels`, `source`,
// and `files` of data, which `readTensors` reads. An exported page also has a checkpoint, `trained`.
const isServed = false;
/** All parts are in this page. */
const fetchParts = () => {};
const plan = __PLAN__;
const kernels = __KERNELS__;
const source = __SOURCE__;
const decoded = text => text && wgcc_js.decodeBase64(text);
const weights = __WEIGHTS__;
const tokenizer = __TOKENIZER__;
// Large files are beside the page: their names, sizes and, once they were chosen, themselves.
const filesBeside = __FILES_BESIDE__;
const contentOf = (name, inside) => {
  const beside = filesBeside.find(file => file.name === name);
  return beside ? (beside.chosen ?? new URL(name, location.href)) : decoded(inside);
};
const twin = __TWIN__;
const constants = __CONSTANTS__;
const seal = __SEAL__;
const files = __FILES__;
const trained = document.querySelector('script#trained')?.textContent.trim() || undefined;
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
      weights: () => contentOf('weights.safetensors', weights),
      tokens: __TOKENS__,
      tokenizer: () => contentOf('tokenizer.json', tokenizer),
      twin: () => decoded(twin),
      worker: startWorker,
    },
    options,
  );
