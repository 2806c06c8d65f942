"""From graphs to kernels, buffers and the order of dispatches.

For each entry: `prepare/` rewrites the graph into what kernels do best; `fuse/` decides what is
materialised and what shares a kernel; `memory/` orders the kernels and places every value;
`kernels/` writes them, one module per family, with the index expressions and the emitter of
`codegen/`. `layout.py` places what all entries share; `schedule.py`, with `plan_entry.py`, is the
flow after preparation. `wgcc/compiler.py` calls them in turn.
"""
