"""Renders kernels as WGSL: a header with bindings and constants, then the template's body."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from wgcc.ops.dtypes import source_of
from wgcc.schedule.kernel import Binding, Kernel

_TEMPLATES = Path(__file__).parent / "templates"


def render(kernel: Kernel, notes: tuple[str, ...] = ()) -> str:
    """The WGSL of a kernel; `notes` are the lines of the comment at its top."""
    comment = "".join(f"// {note}\n" for note in notes)
    body = render_body(kernel)
    return f"{comment}{_header(kernel, body)}\n\n{body}\n"


def render_body(kernel: Kernel) -> str:
    """Without bindings, constants and the functions of ops."""
    template = _environment().get_template(kernel.template)
    declared = "\n".join(variable.declaration for variable in kernel.shared)
    values = {**dict(kernel.constants), **dict(kernel.holes), "workgroup_memory": declared}
    return _indented(template.render(values).strip())


def _indented(text: str) -> str:
    """Each line as deep as the brackets that are open before it, whatever filled a hole.

    A hole may also be empty: functions have no empty lines.
    """
    depth, lines = 0, []
    for line in map(str.strip, text.splitlines()):
        code = line.split("//")[0]
        closed = len(code) - len(code.lstrip("})"))
        if line or not depth:
            lines.append(f"{'  ' * (depth - closed)}{line}" if line else "")
        depth += sum(code.count(c) for c in "({") - sum(code.count(c) for c in ")}")
    return "\n".join(lines)


def _header(kernel: Kernel, body: str) -> str:
    """Bindings, the constants that the body names, and the functions it calls."""
    named = set(re.findall(r"\b[A-Z][A-Z_0-9]*\b", body))
    constants = [f"const {name} = {n}u;" for name, n in kernel.constants if name in named]
    parts = [
        "enable f16;" if kernel.has_halves else "",
        "\n".join(_declaration(i, binding) for i, binding in enumerate(kernel.bindings)),
        "\n".join(constants),
        source_of(kernel.functions).strip(),
    ]
    return "\n\n".join(part for part in parts if part)


def _declaration(number: int, binding: Binding) -> str:
    kind = f"array<{binding.element}, {binding.count}>"
    slot = f"@group(0) @binding({number})"
    if binding.uniform:
        return f"{slot} var<uniform> {binding.name}: {binding.element};"
    return f"{slot} var<storage, {binding.access}> {binding.name}: {kind};"


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
