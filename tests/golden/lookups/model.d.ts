// Types of the model Lookups, written by wgcc 0.2.0; do not edit.

/** The inputs of every entry. */
export interface Inputs {
  train: { readonly rows: In<Int32Array, readonly [6]>; readonly cols: In<Int32Array, readonly [6]> };
  order: { readonly x: In<Float32Array, readonly [3000]> };
}

/** The outputs of every entry. */
export interface Outputs {
  train: { readonly loss: Out<Float32Array, readonly []> };
  order: { readonly places: Out<Int32Array, readonly [3000]>; readonly short: Out<Int32Array, readonly [375, 8]> };
}

export interface Params {
  readonly 'w': Out<Float32Array, readonly [4, 40]>;
}

export interface State {
  readonly 'opt/opt/step': Out<Uint32Array, readonly []>;
}

/** What every entry captures, by name. */
export interface Captures {
  train: {};
  order: {};
}

/** Inputs, outputs, parameters and memory of the model. */
export declare const meta: {
  readonly name: 'Lookups';
  readonly generator: string;
  readonly entries: {
    readonly train: { readonly training: true;
      readonly inputs: { readonly 'rows': { readonly dtype: 'i32'; readonly shape: readonly [6] }; readonly 'cols': { readonly dtype: 'i32'; readonly shape: readonly [6] } };
      readonly outputs: { readonly 'loss': { readonly dtype: 'f32'; readonly shape: readonly [] } } };
    readonly order: { readonly training: false;
      readonly inputs: { readonly 'x': { readonly dtype: 'f32'; readonly shape: readonly [3000] } };
      readonly outputs: { readonly 'places': { readonly dtype: 'i32'; readonly shape: readonly [3000] }; readonly 'short': { readonly dtype: 'i32'; readonly shape: readonly [375, 8] } } };
  };
  readonly params: { readonly 'w': { readonly dtype: 'f32'; readonly shape: readonly [4, 40] } };
  readonly memory: Readonly<Record<string, number>>;
};

/** Entries that train. */
export type Training = 'train';

/** The loaded model: every entry is a method. */
export interface Lookups extends Loaded {
  train(inputs: Inputs['train']): Promise<Outputs['train']>;
  train(inputs: Inputs['train'], options: { output: 'gpu' }): Promise<GpuOutputs<'train'>>;
  order(inputs: Inputs['order']): Promise<Outputs['order']>;
  order(inputs: Inputs['order'], options: { output: 'gpu' }): Promise<GpuOutputs<'order'>>;
}

export declare function load(options?: LoadOptions): Promise<Lookups & Closes>;
