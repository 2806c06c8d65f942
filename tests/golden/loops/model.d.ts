// Types of the model Loops, written by wgcc 0.2.0; do not edit.

/** The inputs of every entry. */
export interface Inputs {
  train: { readonly xs: In<Float32Array, readonly [2, 6, 3]>; readonly y: In<Float32Array, readonly [2, 6, 1]> };
  dream: { readonly h: In<Float32Array, readonly [2, 5]> };
}

/** The outputs of every entry. */
export interface Outputs {
  train: { readonly loss: Out<Float32Array, readonly []> };
  dream: { readonly last: Out<Float32Array, readonly [2, 5]>; readonly seen: Out<Float32Array, readonly [6, 2]> };
}

export interface Params {
  readonly 'cell.wx.w': Out<Float32Array, readonly [3, 20]>;
  readonly 'cell.wx.b': Out<Float32Array, readonly [20]>;
  readonly 'cell.wh.w': Out<Float32Array, readonly [5, 20]>;
  readonly 'out.w': Out<Float32Array, readonly [5, 1]>;
  readonly 'out.b': Out<Float32Array, readonly [1]>;
}

export interface State {
  readonly 'opt/opt/step': Out<Uint32Array, readonly []>;
  readonly 'rng/seed': Out<Uint32Array, readonly []>;
  readonly 'rng/step': Out<Uint32Array, readonly []>;
}

/** What every entry captures, by name. */
export interface Captures {
  train: {};
  dream: {};
}

/** Inputs, outputs, parameters and memory of the model. */
export declare const meta: {
  readonly name: 'Loops';
  readonly generator: string;
  readonly entries: {
    readonly train: { readonly training: true;
      readonly inputs: { readonly 'xs': { readonly dtype: 'f32'; readonly shape: readonly [2, 6, 3] }; readonly 'y': { readonly dtype: 'f32'; readonly shape: readonly [2, 6, 1] } };
      readonly outputs: { readonly 'loss': { readonly dtype: 'f32'; readonly shape: readonly [] } } };
    readonly dream: { readonly training: false;
      readonly inputs: { readonly 'h': { readonly dtype: 'f32'; readonly shape: readonly [2, 5] } };
      readonly outputs: { readonly 'last': { readonly dtype: 'f32'; readonly shape: readonly [2, 5] }; readonly 'seen': { readonly dtype: 'f32'; readonly shape: readonly [6, 2] } } };
  };
  readonly params: { readonly 'cell.wx.w': { readonly dtype: 'f32'; readonly shape: readonly [3, 20] }; readonly 'cell.wx.b': { readonly dtype: 'f32'; readonly shape: readonly [20] }; readonly 'cell.wh.w': { readonly dtype: 'f32'; readonly shape: readonly [5, 20] }; readonly 'out.w': { readonly dtype: 'f32'; readonly shape: readonly [5, 1] }; readonly 'out.b': { readonly dtype: 'f32'; readonly shape: readonly [1] } };
  readonly memory: Readonly<Record<string, number>>;
};

/** Entries that train. */
export type Training = 'train';

/** The loaded model: every entry is a method. */
export interface Loops extends Loaded {
  train(inputs: Inputs['train']): Promise<Outputs['train']>;
  train(inputs: Inputs['train'], options: { output: 'gpu' }): Promise<GpuOutputs<'train'>>;
  /** Backwards, with noise that differs in every round. */
  dream(inputs: Inputs['dream']): Promise<Outputs['dream']>;
  dream(inputs: Inputs['dream'], options: { output: 'gpu' }): Promise<GpuOutputs<'dream'>>;
}

export declare function load(options?: LoadOptions): Promise<Loops & Closes>;
