"""Training on several machines, whatever connects them: `wgcc_runtime.mpi`, `wgcc_runtime.ray`."""
