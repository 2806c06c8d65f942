// The kernels of the model __MODEL__ in WGSL, by file. Written by `wgcc build`; do not edit.
// Only pages that run on WebGPU load them.
export const kernels = __KERNELS__;
