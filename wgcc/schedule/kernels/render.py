"""The trees of kernels: a header with bindings and constants, then a page with its holes filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from wgcc.ir.dtypes import F16
from wgcc.kernel.parse import long_type, parse_module
from wgcc.kernel.rewrite.transform import Filling, fill
from wgcc.kernel.tree import (
    Constant,
    Declaration,
    Enable,
    FunctionDef,
    Literal,
    Module,
    ModuleVariable,
    words_of,
)
from wgcc.ops.checks import source_of
from wgcc.schedule.kernel import Binding, Kernel, WorkgroupVariable

Declarations = tuple[Declaration, ...]
_PAGES = Path(__file__).parent / "templates"


def page(
    name: str, values: Mapping[str, object], holes: Mapping[str, Filling] | None = None
) -> Module:
    """A page of WGSL. `values` are its names, flags and lists; trees fill its `holes`."""
    written = parse_module(_environment().get_template(f"{name}.wgsl.jinja").render(values))
    return fill(written, holes) if holes else written


def tree_of(kernel: Kernel) -> Module:
    """The whole kernel, with the constants that its body names and the functions it calls."""
    own = [words_of(declared) for declared in kernel.body.declarations]
    memory = tuple(_workgroup_variable(variable) for variable in kernel.shared)
    words = set[str]().union(*own, *map(words_of, memory))
    return Module(
        (
            *((Enable(F16),) if kernel.has_halves else ()),
            *(_variable(i, binding) for i, binding in enumerate(kernel.bindings)),
            *(Constant(name, Literal(n, "u32")) for name, n in kernel.constants if name in words),
            *_helpers(kernel),
            *_with_memory(kernel.body.declarations, own, memory),
        )
    )


def _helpers(kernel: Kernel) -> Declarations:
    """The functions that its body calls: those of ops, then those of users."""
    files = [helper for helper in kernel.functions if isinstance(helper, str)]
    return (*parse_module(source_of(files)).declarations, *kernel.own_functions)


def _with_memory(
    body: Declarations, words: Sequence[set[str]], memory: tuple[ModuleVariable, ...]
) -> Declarations:
    """Workgroup memory stands before the first function that names it; the comment comes first."""
    if not memory:
        return body
    names = {variable.name for variable in memory}
    at = next(number for number, own in enumerate(words) if names & own)
    user = body[at]
    if isinstance(user, FunctionDef) and user.name == "main":
        memory = (replace(memory[0], comment=user.comment), *memory[1:])
        user = replace(user, comment="")
    return (*body[:at], *memory, user, *body[at + 1 :])


def _workgroup_variable(variable: WorkgroupVariable) -> ModuleVariable:
    return ModuleVariable(variable.name, "workgroup", long_type(variable.kind))


def _variable(number: int, binding: Binding) -> ModuleVariable:
    slot, element = (0, number), long_type(binding.element)
    if binding.uniform:
        return ModuleVariable(binding.name, "uniform", element, slot=slot)
    kind = f"array<{element}, {binding.count}>"
    return ModuleVariable(binding.name, "storage", kind, binding.access, slot)


@lru_cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_PAGES),
        undefined=StrictUndefined,
        line_statement_prefix="//%",
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
