"""The trees of kernels: a header with bindings and constants, then the template's body."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from wgcc.kernel.parse import parse_module
from wgcc.kernel.tree import (
    Constant,
    Declaration,
    Enable,
    Literal,
    Module,
    ModuleVariable,
    words_of,
)
from wgcc.ops.dtypes import source_of
from wgcc.schedule.kernel import Binding, Kernel

_TEMPLATES = Path(__file__).parent / "templates"


def tree_of(kernel: Kernel) -> Module:
    """The whole kernel, with the constants that its body names and the functions it calls."""
    body = body_of(kernel)
    words = words_of(body)
    return Module(
        (
            *((Enable("f16"),) if kernel.has_halves else ()),
            *(_variable(i, binding) for i, binding in enumerate(kernel.bindings)),
            *(Constant(name, Literal(n, "u32")) for name, n in kernel.constants if name in words),
            *_functions(kernel.functions),
            *body.declarations,
        )
    )


def body_of(kernel: Kernel) -> Module:
    """Without bindings, constants and the functions of ops."""
    template = _environment().get_template(kernel.template)
    declared = "\n".join(variable.declaration for variable in kernel.shared)
    values = {**dict(kernel.constants), **dict(kernel.holes), "workgroup_memory": declared}
    return parse_module(template.render(values))


def _functions(names: tuple[str, ...]) -> tuple[Declaration, ...]:
    return parse_module(source_of(names)).declarations


def _variable(number: int, binding: Binding) -> ModuleVariable:
    slot = (0, number)
    if binding.uniform:
        return ModuleVariable(binding.name, "uniform", binding.element, slot=slot)
    kind = f"array<{binding.element}, {binding.count}>"
    return ModuleVariable(binding.name, "storage", kind, binding.access, slot)


@lru_cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        line_statement_prefix="//%",
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
