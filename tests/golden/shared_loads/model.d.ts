// Types of the model SharedLoads, written by wgcc 0.1.0; do not edit.

/** The inputs of every entry. */
export interface Inputs {
  run: { readonly x: In<Float32Array, readonly [40, 24]> };
}

/** The outputs of every entry. */
export interface Outputs {
  run: { readonly y: Out<Float32Array, readonly [40, 44]> };
}

export interface Params {
  readonly 'w': Out<Float32Array, readonly [24, 20]>;
  readonly 'u': Out<Float32Array, readonly [20, 44]>;
}

export interface State {
}

/** Inputs, outputs, parameters and memory of the model. */
export declare const meta: {
  readonly name: 'SharedLoads';
  readonly generator: string;
  readonly entries: {
    readonly run: { readonly training: false;
      readonly inputs: { readonly 'x': { readonly dtype: 'f32'; readonly shape: readonly [40, 24] } };
      readonly outputs: { readonly 'y': { readonly dtype: 'f32'; readonly shape: readonly [40, 44] } } };
  };
  readonly params: { readonly 'w': { readonly dtype: 'f32'; readonly shape: readonly [24, 20] }; readonly 'u': { readonly dtype: 'f32'; readonly shape: readonly [20, 44] } };
  readonly memory: Readonly<Record<string, number>>;
};

/** Entries that train. */
export type Training = never;

/** The loaded model: every entry is a method. */
export interface SharedLoads extends Loaded {
  run(inputs: Inputs['run']): Promise<Outputs['run']>;
}

export declare function load(options?: LoadOptions): Promise<SharedLoads>;
