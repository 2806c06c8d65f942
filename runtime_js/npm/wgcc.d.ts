/** The files of a bundle, each read when it is needed. */
export interface Bundle {
  /** plan.json. */
  plan: unknown;
  /** The texts of the kernels, by the names of their files. */
  kernels: () => Promise<Record<string, string>>;
  /** Where weights.safetensors is, or its bytes; drawn from the seed if there is none. */
  weights?: () => string | URL | Uint8Array;
  /** Where twin.wasm is, or its bytes: runs the model where there is no GPU. */
  twin?: () => string | URL | Uint8Array;
  /** Where tokenizer.json is, or its bytes, if the model's vocabulary is a file. */
  tokenizer?: () => string | URL | Uint8Array;
  /** constants.safetensors in base 64, if there is one. */
  constants?: string;
}

/** What every error of the runtime is. */
export class WgccError extends Error {
  readonly code: string;
}

/** Loads a model. Options and methods are those of `load` in a bundle's index.d.ts. */
// biome-ignore lint/suspicious/noExplicitAny: the plan, which is data, decides which entries a model has
export function open(bundle: Bundle, options?: Record<string, unknown>): Promise<any>;
