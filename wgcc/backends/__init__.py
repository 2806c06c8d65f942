"""Readers of kernel trees: a folder for each form that kernels are written in.

A back end reads trees (`kernel/tree.py`), never text: `tree_of` gives the tree of a scheduled
kernel (`schedule/kernels/context.py`); `Dispatch.works` says what a dispatch computes, for a back
end that shares it out in its own way (`wasm/README.md`). There are two interfaces:

    print_tree   print_file(module: Module, name: str, notes: Sequence[str]) -> str
    wasm/twin    write_twin(schedule: Schedule) -> Twin | None

The first prints one kernel as a file of its own; `notes` are the lines of the comment at its top.
A folder with this module is found by `wgcc show BUNDLE --kernel NAME --as FOLDER`, and nothing else
needs to name it; `printer.py` has what languages like C share. The second makes one module of all
entries, for machines without a GPU.

A back end that bundles ship needs its call in `bundle/kernels.py` or `compiler.py`. A check of
`dev.py lint` lists the modules that name one.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from wgcc.kernel.tree import Module


def printing_backends() -> list[str]:
    """The folders that print kernels."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/print_tree.py"))


def print_as(backend: str, module: Module, name: str, notes: Sequence[str] = ()) -> str:
    printed = import_module(f"wgcc.backends.{backend}.print_tree").print_file(module, name, notes)
    assert isinstance(printed, str)
    return printed
