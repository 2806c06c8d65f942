"""WebAssembly SIMD: the form of a bundle's kernels that runs where there is no GPU."""
