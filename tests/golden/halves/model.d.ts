// Types of the model Halves, written by wgcc 0.2.0; do not edit.

/** The inputs of every entry. */
export interface Inputs {
  train: { readonly x: In<Float32Array, readonly [32, 4]>; readonly y: In<Float32Array, readonly [32, 1]> };
}

/** The outputs of every entry. */
export interface Outputs {
  train: { readonly loss: Out<Float32Array, readonly []> };
}

export interface Params {
  readonly 'l1.w': Out<Float32Array, readonly [4, 32]>;
  readonly 'l1.b': Out<Float32Array, readonly [32]>;
  readonly 'l2.w': Out<Float32Array, readonly [32, 32]>;
  readonly 'l3.w': Out<Float32Array, readonly [32, 1]>;
}

export interface State {
  readonly 'opt/opt/step': Out<Uint32Array, readonly []>;
}

/** What every entry captures, by name. */
export interface Captures {
  train: {};
}

/** Inputs, outputs, parameters and memory of the model. */
export declare const meta: {
  readonly name: 'Halves';
  readonly generator: string;
  readonly entries: {
    readonly train: { readonly training: true;
      readonly inputs: { readonly 'x': { readonly dtype: 'f32'; readonly shape: readonly [32, 4] }; readonly 'y': { readonly dtype: 'f32'; readonly shape: readonly [32, 1] } };
      readonly outputs: { readonly 'loss': { readonly dtype: 'f32'; readonly shape: readonly [] } } };
  };
  readonly params: { readonly 'l1.w': { readonly dtype: 'f32'; readonly shape: readonly [4, 32] }; readonly 'l1.b': { readonly dtype: 'f32'; readonly shape: readonly [32] }; readonly 'l2.w': { readonly dtype: 'f32'; readonly shape: readonly [32, 32] }; readonly 'l3.w': { readonly dtype: 'f32'; readonly shape: readonly [32, 1] } };
  readonly memory: Readonly<Record<string, number>>;
};

/** Entries that train. */
export type Training = 'train';

/** The loaded model: every entry is a method. */
export interface Halves extends Loaded {
  train(inputs: Inputs['train']): Promise<Outputs['train']>;
  train(inputs: Inputs['train'], options: { output: 'gpu' }): Promise<GpuOutputs<'train'>>;
}

export declare function load(options?: LoadOptions): Promise<Halves & Closes>;
