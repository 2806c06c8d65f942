// The model __MODEL__, compiled from __SOURCE__ by __GENERATOR__. Written by `wgcc build`; do not edit.
import { open, WgccError } from './wgcc.js';

export { WgccError };

/** Loads the model onto a GPU, or as WebAssembly: see index.d.ts for options and methods. */
export const load = options =>
  open(
    { plan, kernels, twin, weights, constants, preparation, seal, worker, tokens, tokenizer },
    options,
  );

/** A typed array with its shape. */
export const tensor = (data, shape) => Object.assign(data, { shape });

/** plan.json of the bundle. */
export const plan = __PLAN__;

const kernels = async () => (await import('./kernels.js')).kernels;

// Runs the model if there is no GPU.
const twin = __TWIN__;

const weights = __WEIGHTS__;

// For `load({ worker: true })`.
const worker = () =>
  new Worker(new URL('./wgcc/serve.js', import.meta.url), { type: 'module', name: 'wgcc' });

// Text as ids, by the tokens of a file.
const tokens = __TOKENS__;
const tokenizer = __TOKENIZER__;

const constants = __CONSTANTS__;

// How the data became arrays that the model is trained with.
const preparation = __PREPARATION__;

// Digests that show that nothing above was changed; a changed bundle is checked first.
const seal = __SEAL__;

const typed = names =>
  Object.fromEntries(
    Object.entries(names).map(([name, key]) => [
      name,
      { dtype: plan.tensors[key].dtype, shape: plan.tensors[key].shape },
    ]),
  );

const facts = () => ({
  name: plan.model.name,
  generator: plan.generator,
  entries: Object.fromEntries(
    Object.entries(plan.entries).map(([name, { inputs, outputs, training }]) => [
      name,
      { inputs: typed(inputs), outputs: typed(outputs), training },
    ]),
  ),
  params: typed(
    Object.fromEntries(
      Object.keys(plan.tensors)
        .filter(name => plan.tensors[name].role === 'param')
        .map(name => [name, name]),
    ),
  ),
  memory: plan.memory,
});

// A damaged plan has none; `load` says what is wrong with it.
const factsOrNone = () => {
  try {
    return facts();
  } catch {
    return undefined;
  }
};

/** Facts about the model: dtype and shape of every input, output and parameter. */
export const meta = factsOrNone();
