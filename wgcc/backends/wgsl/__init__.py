"""The back end for GPUs: prints kernel trees as WGSL."""
