// WebGPU's types are built into TypeScript 6 and newer; before, they come from @webgpu/types, if you install it.
type Global<K extends string> = typeof globalThis extends Record<K, { prototype: infer T }> ? T : unknown;

type Known<K extends string> = typeof globalThis extends Record<K, { prototype: infer T }> ? T : never;
/** For inputs with rows of shape [C, H, W], [H, W, C] or [H, W]: cropped, averaged and, for floats, divided by 255. */
export type Picture = Known<'ImageData'> | Known<'HTMLCanvasElement'> | Known<'OffscreenCanvas'> | Known<'ImageBitmap'> | Known<'HTMLVideoElement'> | Known<'VideoFrame'> | Known<'HTMLImageElement'> | Known<'Blob'>;
/** Numbers, or lists of equal length. */
export type NumberList = readonly (number | NumberList | Float32Array | Int32Array | Uint32Array | Int8Array | Uint8Array)[];
/**
 * An input: a typed array of all elements in row-major order, or a number if there is one element. If it has a `shape`, that must
 * fit. Also nested arrays, pictures, and a buffer of the model's `device`, of which the numbers are not checked.
 */
export type In<A, S extends readonly number[]> = (A & { readonly shape?: S }) | (S extends readonly [] | readonly [1] ? number : never) | NumberList | (S extends readonly [number, number, number, ...number[]] ? Picture | readonly Picture[] : never) | Known<'GPUBuffer'>;
/** An output: a typed array with its shape. One number (shape `[]`) is an array with one element: `loss[0]`. */
export type Out<A, S extends readonly number[]> = A & { readonly shape: S };

// MODEL

/** Batches for `fit`: whole data sets (any number of rows, shuffled by `seed`), what `readData` read, a function of the step, or an iterable. */
export type Data<E extends keyof Inputs> =
  | { readonly [K in keyof Inputs[E]]: Rows<Inputs[E][K]> }
  | ((step: number) => Inputs[E] | null | undefined | Promise<Inputs[E] | null | undefined>)
  | Iterable<Inputs[E]>
  | AsyncIterable<Inputs[E]>
  | ReadData;
type Rows<I> = I extends number | NumberList | Picture | readonly Picture[] ? I : Sized<I>;
type Sized<I> = I extends Float32Array ? Float32Array : I extends Int32Array ? Int32Array : I extends Uint32Array ? Uint32Array : I extends Int8Array ? Int8Array : I extends Uint8Array ? Uint8Array : never;

export interface FitOptions<E> {
  /** How many more steps; with `resume`, how many in all. Without: until the data ends. */
  steps?: number;
  /** Instead of `steps`: passes over the data. Not for a function, which has no end. */
  epochs?: number;
  /** Steps between reports; the loss is read no more often. Default 10. */
  every?: number;
  entry?: E;
  /** Of the shuffle. */
  seed?: number;
  /** Continue at the data position of a restored checkpoint. */
  resume?: boolean;
  /** Arrays (any number of rows) for the entry `eval`, or a function that returns numbers: reports then have `validation`. */
  validation?: Validation | ((model: Loaded) => Numbers | number | null | undefined | Promise<Numbers | number | null | undefined>);
  /** Which entry evaluates the arrays. Default: `eval`. */
  validationEntry?: keyof Inputs;
  /** Steps between validations. Default: `every`. */
  validationEvery?: number;
  /** Aborting ends the training after the current submit, without waiting for data; `fit` throws the signal's reason. A call of WebAssembly that goes on for 5 s is ended; then `recover` is needed. */
  signal?: AbortSignal;
  /** Seconds between snapshots for `recover`, of which the last is at the end; 0 for none. Default 15. */
  snapshot?: number;
  /** After a lost device, open a new one and continue from the last snapshot, with the same bits (not if `data` is an iterator). */
  recover?: boolean;
  /** Keep a receipt, by which others can replay the training; a number: the steps between digests of the weights. For arrays. */
  receipt?: boolean | number;
  /** The text of a receipt, here or of `wgcc train --receipt`: trains as it says, compares the weights, and ends where they part. */
  replay?: string;
}

type Numbers = Readonly<Record<string, number>>;
type Validation = { [E in keyof Inputs]: { readonly [K in keyof Inputs[E]]: Rows<Inputs[E][K]> } }[keyof Inputs];
/** The outputs that are one float each. */
type Scalars<O> = { readonly [K in keyof O as O[K] extends Float32Array & { readonly shape: readonly 1[] } ? K : never]: number };

export interface Report<E extends Training = Training> {
  readonly step: number;
  readonly loss: number;
  /** All scalar outputs of the step. */
  readonly outputs: Scalars<Outputs[E]>;
  /** Those of the validation, if there was one at this step. */
  readonly validation?: Numbers;
  /** Milliseconds per step. */
  readonly ms: number;
  /** So far, at steps where weights were hashed or compared. */
  readonly receipt?: string;
  readonly replay?: Replayed;
}

/** `exact`: bits were compared; else losses, which may be 1 % apart. */
type Replayed = { readonly exact: boolean; readonly compared: number; readonly equalUntil: number | null; readonly parted: number | null };

/** What was reported. A loop's history has its last 10,000 reports. */
export interface History<E extends Training = Training> {
  readonly reports: readonly Report<E>[];
  /** Why the training ended: `stop` if a loop was left. */
  readonly stopped: 'steps' | 'data' | 'stop';
  /** Of the reports. */
  readonly steps: readonly number[];
  readonly losses: readonly number[];
  /** The last one reported. */
  readonly loss: number | undefined;
  /** The receipt, if one was kept; and how a replay ended. */
  readonly receipt: string | undefined;
  readonly replay: Replayed | undefined;
}

/** A training, which begins when it is first awaited or read. Awaiting it takes the reports that no loop has read. */
export interface Fit<E extends Training = Training> extends AsyncGenerator<Report<E>, void, void>, Promise<History<E>> {
  readonly [Symbol.toStringTag]: string;
}

export interface LoadOptions {
  /**
   * Default: the browser's GPU, else WebAssembly. `'webgpu'` and `'wasm'` force one; or a GPU (as `navigator.gpu`, or
   * `create([])` of the npm package webgpu), an adapter or a device.
   */
  device?: 'webgpu' | 'wasm' | Global<'GPU'> | Global<'GPUAdapter'> | Global<'GPUDevice'>;
  /** A safetensors file, its URL or bytes, or arrays by name, instead of the bundle's own weights; or `'ema'`: the moving averages in those. */
  weights?: string | URL | ArrayBuffer | Uint8Array | Known<'Blob'> | { readonly [K in keyof (Params & State)]?: In<Plain<(Params & State)[K]>, (Params & State)[K]['shape']> };
  /** Draws other initial values, and seeds dropout and other random numbers. */
  seed?: number;
  /** Which WebGPU kernels to run. Default: those tuned for the adapter, else `'gpu'`. */
  profile?: 'gpu' | (string & {});
  /** Entries to compile while loading; others are compiled at their first call. */
  entries?: readonly (keyof Inputs)[];
  /** Of WebAssembly, where they can share memory. Default: up to 4, 1 for small models. The results are the same. */
  threads?: number;
  /** The folder that has `weights.safetensors`, `twin.wasm` and, if there is one, `tokenizer.json`. Default: that of `index.js`. */
  baseUrl?: string | URL;
  /** GPU memory the bundle may take. Default: 8 GiB. */
  maxBytes?: number;
  /** Run the bundle's self-test first; a wrong result throws code `selftest`. */
  verify?: boolean;
  /**
   * Measure the bundle's kernels on this adapter and use the fastest; the browser stores the choice. A number: seconds it may
   * take, 30 by default. `wgcc build --candidates` adds kernels to choose from.
   */
  tune?: boolean | number;
  /** `false`: reductions never use subgroup operations, which give the same bits. */
  subgroups?: boolean;
  /** Run the whole model in a worker of its own, in browsers and Deno. Everything else is the same; `device` is undefined. */
  worker?: boolean;
  signal?: AbortSignal;
  /** The stage `weights` counts bytes of a file, `values` bytes of many values that are drawn, `kernels` kernels, `tune` profiles. */
  onProgress?(progress: { readonly stage: 'weights' | 'values' | 'kernels' | 'tune'; readonly done: number; readonly total: number }): void;
}

export interface GenerateOptions {
  /** Ids to write. Default 200. */
  steps?: number;
  /** Instead of `steps`: ids of the prompt and the text. */
  maxLength?: number;
  /** Ends the text before one of these. */
  stop?: string | number | readonly (string | number)[];
  /** 0: always the likeliest. Default 0.8. An input of the entry, if it has this one; else it chooses among the entry's scores. */
  temperature?: number;
  /** Only so many of the likeliest ids; as `temperature`, or the input `top_k`. */
  topK?: number;
  /** Only as many of the likeliest as make up this part; as `temperature`, or the input `top_p`. */
  topP?: number;
  /** Only those with at least this part of the largest probability; as `temperature`, or the input `min_p`. */
  minP?: number;
  /** Divides positive scores of ids that were read or written before, and multiplies negative ones; or the input `repetition_penalty`. */
  repetitionPenalty?: number;
  /** Ids that the model read before, which the penalty is for, too. */
  context?: readonly number[];
  /** Of the choice among scores, or the input `seed`. */
  seed?: number;
  signal?: AbortSignal;
  /** Default: `decode`. */
  entry?: keyof Inputs;
  /** Other inputs of the entry, the same in every call. */
  inputs?: Readonly<Record<string, unknown>>;
}

export interface ChatOptions {
  /** The model's chat template: its form is known by its marks, it is not run. */
  template: string;
  system?: string;
  /** Ends an answer before one of these, too. */
  stop?: string | number | readonly (string | number)[];
  /** Ids of an answer at most. Default 1024. */
  steps?: number;
  /** Default 0.8. */
  temperature?: number;
  /** Default 40. */
  topK?: number;
  /** Default 0.95. */
  topP?: number;
  /** Default 0.05. */
  minP?: number;
  repetitionPenalty?: number;
  /** Each answer has random numbers of its own. */
  seed?: number;
}

export type AdapterFile = Blob | ArrayBuffer | ArrayBufferView;

export interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** A conversation, whose tokens stay in the model's cache: call `reset` after using the model for something else. */
export interface Chat {
  system: string;
  messages: Message[];
  /** How many of the oldest messages the model does not see any more, because the cache is bounded. */
  readonly leftOut: number;
  /** Whether the last answer ended because the cache was full, or the number of steps reached. */
  readonly isCut: boolean;
  /** Tokens that the cache holds. */
  readonly context: number;
  /** The answer, piece by piece. Leaving the loop, or aborting, ends it; what was written stays. */
  ask(text: string, options?: { signal?: AbortSignal }): AsyncGenerator<string, void, void>;
  /** Forgets all messages. */
  reset(): void;
}

/** Text as ids, and ids as text. */
export interface Tokenizer {
  /** One more than the largest id. */
  readonly size: number;
  /** With the special tokens that the file puts around a text, unless `special` is false; `'before'`: only with those before a text that is to be continued. */
  encode(text: string, options?: { special?: boolean | 'before' }): number[];
  /** Without special tokens, unless `special` is true; ids that are none are left out. */
  decode(ids: Iterable<number>, options?: { special?: boolean }): string;
  /** The text of ids that come one by one, in whole characters: what each adds, and at the end the rest. `context`: ids before them. */
  stream(context?: readonly number[]): { push(id: number): string; end(): string };
}

/** How columns, pictures or text become inputs. */
export interface Preparation {
  readonly version: 1;
  readonly inputs: Readonly<Record<string, {
    readonly kind: string;
    readonly columns?: readonly string[];
    readonly classes?: readonly string[];
    /** How the columns of a file become these, if they were read with `encode`. */
    readonly sources?: ReadonlyArray<{
      readonly column: string;
      readonly unit?: string;
      readonly names?: readonly string[];
      readonly date?: 'ymd' | 'dmy' | 'mdy';
      readonly parts?: readonly string[];
    }>;
    /** Of each column, if it is scaled. */
    readonly mean?: readonly number[];
    readonly deviation?: readonly number[];
  }>>;
  /** The input that predictions stand for. */
  readonly target: string | null;
  readonly missing: 'drop' | 'mean';
}

/** How `readData` reads; see wgcc/DATA.md. */
export interface ReadOptions {
  /** Default: `train`. */
  entry?: string;
  /** The column that the model shall learn to predict. */
  target?: string | null;
  /** The columns that feed the other input, or those of each input by its name. */
  columns?: readonly string[] | Readonly<Record<string, readonly string[]>> | null;
  /** Scale number columns to mean 0 and deviation 1, and predictions back. */
  scale?: boolean;
  /** Turn columns of names, dates and amounts such as `$1,200` into numbers. */
  encode?: boolean;
  /** Leave out rows with missing cells, or fill number columns with their mean. */
  missing?: 'drop' | 'mean';
  decimal?: ',' | '.' | null;
  /** Leave out characters that are not in the vocabulary. */
  unknown?: 'drop' | null;
  /** Numbers for inputs that are no rows, such as a learning rate. */
  values?: Readonly<Record<string, number>>;
  /** Columns, classes and scaling of a trained model. */
  preparation?: Preparation | null;
  /** Of a source that has none; its ending says what it is. */
  name?: string;
}

/** What `readData` read, for `fit`. */
export interface ReadData {
  /** By input. */
  readonly arrays: Readonly<Record<string, any>>;
  readonly preparation: Preparation | null;
  readonly rows: number;
  /** What is surprising about the file, in sentences. */
  readonly notes: readonly string[];
  readonly dropped: readonly { readonly reason: string; readonly count: number; readonly first: number }[];
  readonly columns: readonly { readonly name: string; readonly kind: 'numbers' | 'names' | 'empty' | 'index'; readonly input: string | null }[];
  /** Columns that should be scaled. */
  readonly needsScaling: readonly string[];
  /** Rows to train with, and a share of them to judge with, chosen by `seed`. Scaling is that of the rows to train with. */
  split(share: number, seed?: number): Promise<[ReadData, ReadData]>;
}

/** Of a captured value; mean, deviation, min and max are those of its finite elements. */
export interface Statistics {
  readonly shape: readonly number[];
  readonly mean: number;
  readonly deviation: number;
  readonly min: number;
  readonly max: number;
  /** How many elements are zero, NaN, infinite. */
  readonly zeros: number;
  readonly nan: number;
  readonly infinite: number;
  /** The finite elements in 32 bins of equal width from `min` to `max`. */
  readonly histogram: Uint32Array;
}

/** Outputs on the GPU: destroy their buffers when you are done with them. */
export type GpuOutputs<E extends keyof Outputs> = { readonly [K in keyof Outputs[E]]: { readonly buffer: Global<'GPUBuffer'>; readonly shape: readonly number[]; readonly dtype: 'f32' | 'i32' | 'u32' | 'i8' | 'u8' | 'bool' } };

/** For `await using model = await load()`, where the language has it. */
type Closes = typeof Symbol extends { readonly asyncDispose: infer S } ? { [K in S & symbol]: () => Promise<void> } : unknown;

/** Why a model on WebAssembly has not more threads: see "Threads" in the README of the runtime. */
type ThreadLimit = 'small' | 'not-isolated' | 'no-workers' | 'no-shared-memory' | 'asked' | 'cores' | 'enough';

/** What every model has besides its entries. */
export interface Loaded {
  readonly plan: unknown;
  /** None on WebAssembly. */
  readonly device: Global<'GPUDevice'> | undefined;
  readonly adapter: { readonly name: string; readonly kind: 'webgpu' | 'wasm'; readonly profile: string; readonly subgroups?: boolean; readonly threads?: number; readonly threadLimit?: ThreadLimit };
  /** Resolves when the device is lost; call `recover` to continue. */
  readonly lost: Promise<{ readonly reason: string; readonly message: string }>;
  readonly progress: { readonly steps: Readonly<Record<string, number>>; readonly position: number; readonly seed: number };
  /**
   * How people's data became the arrays that the model was trained with; checkpoints keep it. With it, entries that do not
   * train take numbers as they are in the data, and predict such numbers. Set by `fit` with what `readData` returns.
   */
  preparation: Preparation | null;
  /** The names of the classes that the model predicts, by their ids. */
  readonly classes: readonly string[] | null;
  /** A training step that gives a NaN is undone and rejected, unless this is false. */
  checkFinite: boolean;
  call<E extends keyof Inputs>(entry: E, inputs: Inputs[E]): Promise<Outputs[E]>;
  /** Leaves the outputs on the GPU, as copies that you destroy. */
  call<E extends keyof Inputs>(entry: E, inputs: Inputs[E], options: { output: 'gpu' }): Promise<GpuOutputs<E>>;
  /** As `call`, with inputs as the model was trained with, whatever its preparation. */
  callPrepared<E extends keyof Inputs>(entry: E, inputs: Inputs[E]): Promise<Outputs[E]>;
  /**
   * Reads a table (.csv, .tsv, .json), arrays (.npz, .npy, .safetensors), pictures or text as data for `fit`. `source`: a File
   * or Blob, a list of Files (a folder, pictures), bytes, or text. What cannot be decided is an error of code `data`, with line and column.
   */
  readData(source: unknown, options?: ReadOptions): Promise<ReadData>;
  /**
   * Trains: `const { loss } = await model.fit(data, { steps: 1000 })`, or report by report, `for await (const { step, loss } of
   * model.fit(data, { steps: 1000 })) …`: leave the loop to stop. One at a time: else code `busy`.
   */
  fit<E extends Training = 'train' extends Training ? 'train' : Training>(data: [Training] extends [never] ? never : Data<E>, options?: FitOptions<E>): Fit<E>;
  /**
   * What a language model writes after a prompt, piece by piece. The entry takes the id of a character and returns the next, or
   * the scores of all; it continues from the model's state. Characters, or tokens, come from the model's `vocab`.
   * The prompt is a text or ids; an entry `prefill` that takes several ids reads it in chunks. At the end of the text: all ids
   * that the model read, and whether all steps were made. One at a time: else code `busy`.
   */
  generate(prompt: string | readonly number[], options?: GenerateOptions): AsyncGenerator<string, { ids: number[]; isAtEnd: boolean }, void>;
  /** A conversation with a language model whose cache the entry `forget` empties, as `wgcc import` makes them of GGUF files. */
  chat(options: ChatOptions): Promise<Chat>;
  /**
   * Replaces the corrections of a model that `wgcc train FOLDER --lora` made, or adds to them; steps and optimizers are reset.
   * `source`: the two files of PEFT, a GGUF adapter of llama.cpp, or what `save` wrote; null: there are none. If they do not fit,
   * nothing is changed.
   */
  loadAdapter(source: AdapterFile | readonly AdapterFile[] | null, options?: { strength?: number; add?: boolean }): Promise<void>;
  /** The corrections as files, by name: of PEFT (`base` is the model's name), or of llama.cpp (`architecture`, such as `llama`). */
  saveAdapter(options?: { form?: 'peft'; base?: string } | { form: 'gguf'; architecture: string }): Promise<Record<string, Uint8Array>>;
  /** Adds the corrections to the weights that they correct, which must be plain floats. */
  mergeAdapter(): Promise<void>;
  /** How text becomes ids, and ids text, by the model's `vocab`; without one, code `text`. A file of tokens is loaded by the first call. */
  tokens(): Promise<Tokenizer>;
  /**
   * The first half of a training step: all gradients of a batch as one array. `apply` makes the second half, with these or other
   * gradients, such as averages over several machines; any other use of the model drops the first.
   */
  gradients<E extends Training = 'train' extends Training ? 'train' : Training>(inputs: Inputs[E], entry?: E): Promise<Float32Array>;
  /** The second half: clipping, schedule, update; returns the outputs of the step. */
  apply<E extends Training = 'train' extends Training ? 'train' : Training>(gradients: Float32Array): Promise<Outputs[E]>;
  /**
   * Values inside the entry that was called last, or last of `entry`, in a bundle built with `--capture`; read from the device
   * now. What a call in parts cannot join is left out, or, if it is among `names`, an error of code `captured`.
   */
  captured<E extends keyof Captures = keyof Captures>(options?: { entry?: E; names?: readonly string[] }): Promise<Captures[E]>;
  /** Undoes the `apply` directly before. */
  undo(): Promise<void>;
  /** All, or those of these names. */
  params(names?: readonly string[]): Promise<Params>;
  state(names?: readonly string[]): Promise<State>;
  loadParams(values: { readonly [K in keyof Params]: In<Plain<Params[K]>, Params[K]['shape']> }): Promise<void>;
  loadParams(values: { readonly [K in keyof (Params & State)]?: In<Plain<(Params & State)[K]>, (Params & State)[K]['shape']> }, options: { strict: false }): Promise<void>;
  /** Resets to initial values and no steps; a seed draws other initial values. */
  reset(seed?: number, options?: { own?: boolean }): Promise<void>;
  /** A safetensors file, the same as Python's; with `optimizer` (the default) training can resume from it with the same bits. */
  save(options?: { optimizer?: boolean; blob?: false }): Promise<ReturnType<Uint8ArrayConstructor['from']>>;
  /** The same as a file that is not in the page's memory as a whole: for models of many MB. */
  save(options: { optimizer?: boolean; blob: true }): Promise<Global<'Blob'>>;
  /**
   * Restores what `save` wrote, for the same model with the same kinds of optimizers (else code `mismatch`). `weightsOnly`
   * loads the parameters and state of any model that has the same ones; optimizers and steps are reset. So does
   * `weights: 'ema'` (or `'NAME.ema'` of the optimizer NAME), with moving averages instead of the parameters. Resolves to
   * warnings about the checkpoint, if any. Where it is damaged, nothing changes.
   */
  restore(file: ArrayBuffer | ArrayBufferView | Known<'Blob'>, options?: { weightsOnly?: boolean; weights?: string }): Promise<readonly string[]>;
  /** Stores a checkpoint in the browser; resolves to whether the browser promised not to evict it. */
  store(key?: string): Promise<boolean>;
  /** Restores what `store` stored, as `restore` does; false if there is nothing. */
  recall(key?: string): Promise<readonly string[] | false>;
  snapshot(): Promise<void>;
  /**
   * After a lost device: opens a new one and restores the last snapshot. `fit` ends with one; `restore`, `reset` and
   * `loadParams` change it, too. Resolves to the steps of each training entry, and how many were lost.
   */
  recover(device?: LoadOptions['device']): Promise<{ steps: Numbers; lost: Numbers }>;
  profile(entry?: keyof Inputs, repeat?: number): Promise<{ entry: string; method: string; rows: { kernel: string; label: string; at: string; ms: number; times: number }[] }>;
  dispose(): void;
}
type Plain<T> = Sized<T>;

/** `plan.json` of the bundle, as an object. */
export declare const plan: unknown;
/** A typed array with its shape. */
export declare function tensor<A extends Float32Array | Int32Array | Uint32Array | Int8Array | Uint8Array, const S extends readonly number[]>(data: A, shape: S): Out<A, S>;

/** A problem a caller can act on: `code` is one stable word (no-webgpu, shape, weights, device-lost, …). */
export declare class WgccError extends Error {
  /** Also for an error of another bundle, whose class is another. */
  static is(error: unknown): error is WgccError;
  readonly code: string;
  readonly field: string;
}
