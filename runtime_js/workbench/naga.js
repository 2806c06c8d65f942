// naga, which translates WGSL for Metal, Direct3D and Vulkan: a script of its own, fetched on demand.

// @ts-expect-error - its types are named by conditions that are not looked at here.
export { init, translate } from 'naga-wasm';
