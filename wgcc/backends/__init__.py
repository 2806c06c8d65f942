"""Readers of kernel trees: a folder for each form that kernels are written in.

A back end takes kernels of a schedule (`schedule/kernel.py`) and reads their trees, never their
text: `tree_of` gives a whole kernel (`schedule/kernels/render.py`), `Kernel.body` what is left
where a back end has its own bindings and functions of ops.

    wgsl/print_tree.py   print_kernel(kernel, notes) -> text      for GPUs, and for people to read
    wasm/twin.py         write_twin(schedule, …)     -> a module  for machines without a GPU

A check of `dev.py lint` lists the modules that name a back end; a new
one is a folder here, and a line in `bundle/emit.py` that ships what it made.
"""
