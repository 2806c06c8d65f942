// Types of the model Memory, written by wgcc 0.2.0; do not edit.

/** The inputs of every entry. */
export interface Inputs {
  push: { readonly row: In<Float32Array, readonly [3]> };
  look: { readonly keep: In<Uint8Array, readonly [6]> };
  clear: {};
}

/** The outputs of every entry. */
export interface Outputs {
  push: { readonly sums: Out<Float32Array, readonly [6, 3]>; readonly newest: Out<Float32Array, readonly [3]>; readonly count: Out<Int32Array, readonly []> };
  look: { readonly mixed: Out<Float32Array, readonly [3, 2]>; readonly best: Out<Int32Array, readonly [3]>; readonly noisy: Out<Float32Array, readonly [6, 3]> };
  clear: {};
}

export interface Params {
  readonly 'scale': Out<Float32Array, readonly [3]>;
}

export interface State {
  readonly 'ring': Out<Float32Array, readonly [6, 3]>;
  readonly 'at': Out<Int32Array, readonly []>;
  readonly 'rng/seed': Out<Uint32Array, readonly []>;
  readonly 'rng/step': Out<Uint32Array, readonly []>;
}

/** What every entry captures, by name. */
export interface Captures {
  push: {};
  look: {};
  clear: {};
}

/** Inputs, outputs, parameters and memory of the model. */
export declare const meta: {
  readonly name: 'Memory';
  readonly generator: string;
  readonly entries: {
    readonly push: { readonly training: false;
      readonly inputs: { readonly 'row': { readonly dtype: 'f32'; readonly shape: readonly [3] } };
      readonly outputs: { readonly 'sums': { readonly dtype: 'f32'; readonly shape: readonly [6, 3] }; readonly 'newest': { readonly dtype: 'f32'; readonly shape: readonly [3] }; readonly 'count': { readonly dtype: 'i32'; readonly shape: readonly [] } } };
    readonly look: { readonly training: false;
      readonly inputs: { readonly 'keep': { readonly dtype: 'bool'; readonly shape: readonly [6] } };
      readonly outputs: { readonly 'mixed': { readonly dtype: 'f32'; readonly shape: readonly [3, 2] }; readonly 'best': { readonly dtype: 'i32'; readonly shape: readonly [3] }; readonly 'noisy': { readonly dtype: 'f32'; readonly shape: readonly [6, 3] } } };
    readonly clear: { readonly training: false;
      readonly inputs: {};
      readonly outputs: {} };
  };
  readonly params: { readonly 'scale': { readonly dtype: 'f32'; readonly shape: readonly [3] } };
  readonly memory: Readonly<Record<string, number>>;
};

/** Entries that train. */
export type Training = never;

/** The loaded model: every entry is a method. */
export interface Memory extends Loaded {
  /** Stores one row and returns running sums of what is remembered. */
  push(inputs: Inputs['push']): Promise<Outputs['push']>;
  push(inputs: Inputs['push'], options: { output: 'gpu' }): Promise<GpuOutputs<'push'>>;
  look(inputs: Inputs['look']): Promise<Outputs['look']>;
  look(inputs: Inputs['look'], options: { output: 'gpu' }): Promise<GpuOutputs<'look'>>;
  clear(inputs?: Inputs['clear']): Promise<Outputs['clear']>;
  clear(inputs: Inputs['clear'], options: { output: 'gpu' }): Promise<GpuOutputs<'clear'>>;
}

export declare function load(options?: LoadOptions): Promise<Memory & Closes>;
