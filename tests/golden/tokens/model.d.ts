// Types of the model Tokens, written by wgcc 0.2.0; do not edit.

/** The inputs of every entry. */
export interface Inputs {
  train: { readonly ids: In<Int32Array, readonly [2, 5]>; readonly labels: In<Int32Array, readonly [2, 5]> };
  probabilities: { readonly ids: In<Int32Array, readonly [number, 5]> };
}

/** The outputs of every entry. */
export interface Outputs {
  train: { readonly loss: Out<Float32Array, readonly []>; readonly acc: Out<Float32Array, readonly []>; readonly norm: Out<Float32Array, readonly []> };
  probabilities: { readonly p: Out<Float32Array, readonly [number, 5, 7]> };
}

export interface Params {
  readonly 'tok.w': Out<Float32Array, readonly [7, 4]>;
  readonly 'norm.g': Out<Float32Array, readonly [4]>;
  readonly 'norm.b': Out<Float32Array, readonly [4]>;
  readonly 'mix.w': Out<Float32Array, readonly [4, 8]>;
  readonly 'mix.b': Out<Float32Array, readonly [8]>;
  readonly 'back.w': Out<Float32Array, readonly [8, 4]>;
}

export interface State {
  readonly 'opt/opt/step': Out<Uint32Array, readonly []>;
  readonly 'opt/opt/exp_avg/tok.w': Out<Float32Array, readonly [7, 4]>;
  readonly 'opt/opt/exp_avg/mix.w': Out<Float32Array, readonly [4, 8]>;
  readonly 'opt/opt/exp_avg/back.w': Out<Float32Array, readonly [8, 4]>;
  readonly 'opt/opt/exp_avg_sq/tok.w': Out<Float32Array, readonly [7, 4]>;
  readonly 'opt/opt/exp_avg_sq/mix.w': Out<Float32Array, readonly [4, 8]>;
  readonly 'opt/opt/exp_avg_sq/back.w': Out<Float32Array, readonly [8, 4]>;
  readonly 'opt/opt/exp_avg/norm.g': Out<Float32Array, readonly [4]>;
  readonly 'opt/opt/exp_avg/norm.b': Out<Float32Array, readonly [4]>;
  readonly 'opt/opt/exp_avg/mix.b': Out<Float32Array, readonly [8]>;
  readonly 'opt/opt/exp_avg_sq/norm.g': Out<Float32Array, readonly [4]>;
  readonly 'opt/opt/exp_avg_sq/norm.b': Out<Float32Array, readonly [4]>;
  readonly 'opt/opt/exp_avg_sq/mix.b': Out<Float32Array, readonly [8]>;
  readonly 'opt/opt/ema/tok.w': Out<Float32Array, readonly [7, 4]>;
  readonly 'opt/opt/ema/norm.g': Out<Float32Array, readonly [4]>;
  readonly 'opt/opt/ema/norm.b': Out<Float32Array, readonly [4]>;
  readonly 'opt/opt/ema/mix.w': Out<Float32Array, readonly [4, 8]>;
  readonly 'opt/opt/ema/mix.b': Out<Float32Array, readonly [8]>;
  readonly 'opt/opt/ema/back.w': Out<Float32Array, readonly [8, 4]>;
}

/** What every entry captures, by name. */
export interface Captures {
  train: {};
  probabilities: {};
}

/** Inputs, outputs, parameters and memory of the model. */
export declare const meta: {
  readonly name: 'Tokens';
  readonly generator: string;
  readonly entries: {
    readonly train: { readonly training: true;
      readonly inputs: { readonly 'ids': { readonly dtype: 'i32'; readonly shape: readonly [2, 5] }; readonly 'labels': { readonly dtype: 'i32'; readonly shape: readonly [2, 5] } };
      readonly outputs: { readonly 'loss': { readonly dtype: 'f32'; readonly shape: readonly [] }; readonly 'acc': { readonly dtype: 'f32'; readonly shape: readonly [] }; readonly 'norm': { readonly dtype: 'f32'; readonly shape: readonly [] } } };
    readonly probabilities: { readonly training: false;
      readonly inputs: { readonly 'ids': { readonly dtype: 'i32'; readonly shape: readonly [2, 5] } };
      readonly outputs: { readonly 'p': { readonly dtype: 'f32'; readonly shape: readonly [2, 5, 7] } } };
  };
  readonly params: { readonly 'tok.w': { readonly dtype: 'f32'; readonly shape: readonly [7, 4] }; readonly 'norm.g': { readonly dtype: 'f32'; readonly shape: readonly [4] }; readonly 'norm.b': { readonly dtype: 'f32'; readonly shape: readonly [4] }; readonly 'mix.w': { readonly dtype: 'f32'; readonly shape: readonly [4, 8] }; readonly 'mix.b': { readonly dtype: 'f32'; readonly shape: readonly [8] }; readonly 'back.w': { readonly dtype: 'f32'; readonly shape: readonly [8, 4] } };
  readonly memory: Readonly<Record<string, number>>;
};

/** Entries that train. */
export type Training = 'train';

/** The loaded model: every entry is a method. */
export interface Tokens extends Loaded {
  train(inputs: Inputs['train']): Promise<Outputs['train']>;
  train(inputs: Inputs['train'], options: { output: 'gpu' }): Promise<GpuOutputs<'train'>>;
  probabilities(inputs: Inputs['probabilities']): Promise<Outputs['probabilities']>;
  probabilities(inputs: Inputs['probabilities'], options: { output: 'gpu' }): Promise<GpuOutputs<'probabilities'>>;
}

export declare function load(options?: LoadOptions): Promise<Tokens & Closes>;
