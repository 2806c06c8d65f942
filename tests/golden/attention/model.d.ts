// Types of the model Attention, written by wgcc 0.2.0; do not edit.

/** The inputs of every entry. */
export interface Inputs {
  train: { readonly y: In<Float32Array, readonly [2, 5, 4]> };
  decode: { readonly query: In<Float32Array, readonly [2, 1, 4]>; readonly key: In<Float32Array, readonly [1, 1, 4]>; readonly value: In<Float32Array, readonly [1, 1, 4]> };
}

/** The outputs of every entry. */
export interface Outputs {
  train: { readonly loss: Out<Float32Array, readonly []> };
  decode: { readonly y: Out<Float32Array, readonly [2, 1, 4]> };
}

export interface Params {
  readonly 'q': Out<Float32Array, readonly [2, 5, 4]>;
  readonly 'k': Out<Float32Array, readonly [1, 5, 4]>;
  readonly 'v': Out<Float32Array, readonly [1, 5, 4]>;
}

export interface State {
  readonly 'opt/opt/step': Out<Uint32Array, readonly []>;
  readonly 'keys': Out<Float32Array, readonly [1, 5, 4]>;
  readonly 'values': Out<Float32Array, readonly [1, 5, 4]>;
  readonly 'at': Out<Int32Array, readonly []>;
}

/** What every entry captures, by name. */
export interface Captures {
  train: {};
  decode: {};
}

/** Inputs, outputs, parameters and memory of the model. */
export declare const meta: {
  readonly name: 'Attention';
  readonly generator: string;
  readonly entries: {
    readonly train: { readonly training: true;
      readonly inputs: { readonly 'y': { readonly dtype: 'f32'; readonly shape: readonly [2, 5, 4] } };
      readonly outputs: { readonly 'loss': { readonly dtype: 'f32'; readonly shape: readonly [] } } };
    readonly decode: { readonly training: false;
      readonly inputs: { readonly 'query': { readonly dtype: 'f32'; readonly shape: readonly [2, 1, 4] }; readonly 'key': { readonly dtype: 'f32'; readonly shape: readonly [1, 1, 4] }; readonly 'value': { readonly dtype: 'f32'; readonly shape: readonly [1, 1, 4] } };
      readonly outputs: { readonly 'y': { readonly dtype: 'f32'; readonly shape: readonly [2, 1, 4] } } };
  };
  readonly params: { readonly 'q': { readonly dtype: 'f32'; readonly shape: readonly [2, 5, 4] }; readonly 'k': { readonly dtype: 'f32'; readonly shape: readonly [1, 5, 4] }; readonly 'v': { readonly dtype: 'f32'; readonly shape: readonly [1, 5, 4] } };
  readonly memory: Readonly<Record<string, number>>;
};

/** Entries that train. */
export type Training = 'train';

/** The loaded model: every entry is a method. */
export interface Attention extends Loaded {
  train(inputs: Inputs['train']): Promise<Outputs['train']>;
  train(inputs: Inputs['train'], options: { output: 'gpu' }): Promise<GpuOutputs<'train'>>;
  /** Attends from the next position to itself and all before it. */
  decode(inputs: Inputs['decode']): Promise<Outputs['decode']>;
  decode(inputs: Inputs['decode'], options: { output: 'gpu' }): Promise<GpuOutputs<'decode'>>;
}

export declare function load(options?: LoadOptions): Promise<Attention & Closes>;
