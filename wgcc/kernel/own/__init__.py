"""Functions that users write in WGSL: read, checked and made ready to be called by kernels."""
