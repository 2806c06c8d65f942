"""Prints kernel trees as CUDA C++: a file that a compiler for GPUs takes as it is.

A kernel is a struct: bindings and private variables are its members, and its functions may stand in
any order. Workgroup memory is shared memory, uniforms are arguments. `prelude.cuh` has the types
and functions that WGSL has and C++ has not. Indices are not clamped, as WGSL would: the measured
kernels are those whose indices are proven (`kernel/check.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from wgcc.backends.printer import Printer, comment_lines
from wgcc.kernel.tree import (
    Alias,
    Assign,
    Call,
    ConstantDef,
    FunctionDef,
    Let,
    Literal,
    Module,
    ModuleVariable,
    Name,
    Statement,
    Struct,
)
from wgcc.kernel.types import FLOATS, array_parts

PRELUDE = Path(__file__).parent / "prelude.cuh"
# Words of C++ that are names in WGSL.
_RESERVED = re.compile(
    "auto|case|char|class|default|delete|do|double|enum|explicit|export|extern|float|friend|goto|"
    "inline|int|long|mutable|namespace|new|operator|private|protected|public|register|short|signed|"
    "sizeof|static|template|this|throw|try|typedef|typename|union|unsigned|using|virtual|void|"
    "volatile"
)
_BUILTINS = {
    "workgroup_id": "vec3<u32>(blockIdx.x, blockIdx.y, blockIdx.z)",
    "num_workgroups": "vec3<u32>(gridDim.x, gridDim.y, gridDim.z)",
    "local_invocation_id": "vec3<u32>(threadIdx.x, threadIdx.y, threadIdx.z)",
    "local_invocation_index": "wgsl::local_index()",
    "global_invocation_id": "wgsl::global_id()",
    "subgroup_size": "32u",
    "subgroup_invocation_id": "wgsl::local_index() % 32u",
}
_SWIZZLE = re.compile("[xyzw]{2,4}")
# A type as the text of a call: `f32(x)`, `vec4<f32>(a, b)`.
_TYPE = re.compile(r"f32|f16|u32|i32|bool|vec[234]<\w+>")


def print_file(module: Module, name: str, notes: Sequence[str] = ()) -> str:
    """A whole file, with what all kernels need."""
    comment = "".join(f"// {note}\n" for note in notes)
    return f"{comment}{PRELUDE.read_text(encoding='utf-8')}\n{print_module(module, name)}\n"


def print_module(module: Module, name: str) -> str:
    """One kernel in a namespace of its own, for files with several."""
    printer = _CudaPrinter(module)
    lines = [f"namespace kernel_{name} {{", "using namespace wgsl;"]
    types = (ConstantDef, Alias, Struct)
    for declared in module.declarations:
        if isinstance(declared, types):
            lines += [*comment_lines(declared.comment), printer.declare(declared)]
    variables = module.variables.values()
    lines += [f"__shared__ {printer.variable(v)};" for v in variables if v.space == "workgroup"]
    lines += ["", "struct Kernel {"]
    lines += [f"  {printer.binding(v)};" for v in variables if v.slot]
    lines += [f"  {printer.variable(v)}{{}};" for v in variables if v.space == "private"]
    for function in module.functions.values():
        lines += ["", *(f"  {line}" for line in printer.function(function))]
    return "\n".join([*lines, "};", "", *printer.entry(name), "}"])


class _CudaPrinter(Printer):
    def __init__(self, module: Module) -> None:
        self._module = module

    def name(self, name: str) -> str:
        return f"{name}_" if _RESERVED.fullmatch(name) else name

    def literal(self, literal: Literal) -> str:
        if literal.kind == "bool":
            return "true" if literal.value else "false"
        text = literal.text or repr(literal.value)
        if literal.kind in FLOATS:
            digits = text.rstrip("fh")
            number = f"{digits if re.search('[.e]', digits) else digits + '.0'}f"
            return number if literal.kind == "f32" else f"f16({number})"
        digits = text if text[:2].lower() == "0x" else text.rstrip("iu")
        return f"{digits.rstrip('u')}u" if literal.kind == "u32" else digits.rstrip("i")

    def let(self, let: Let) -> str:
        kind = "auto" if let.kind is None else let.kind
        value = "{}" if let.value is None else f" = {self.expr(let.value)}"
        return f"{kind} {self.name(let.name)}{value}"

    def _simple(self, statement: Statement) -> str:
        match statement:
            case Assign(Name("_"), value):
                return f"(void)({self.expr(value)})"
        return super()._simple(statement)

    def member(self, whole: str, field: str) -> str:
        if _SWIZZLE.fullmatch(field):
            numbers = ", ".join(str("xyzw".index(letter)) for letter in field)
            return f"wgsl::swizzle<{numbers}>({whole})"
        return f"{whole}.{self.name(field)}"

    def call(self, call: Call) -> str:
        args = ", ".join(map(self.expr, call.args))
        if call.name in self._module.functions:
            return f"{self.name(call.name)}({args})"
        if call.name in self._module.structs or call.name.startswith("array<"):
            return f"{call.name}{{{args}}}"
        if call.name in self._module.aliases or _TYPE.fullmatch(call.name):
            return f"{call.name}({args})"
        return f"wgsl::{call.name}({args})"

    def declare(self, declared: ConstantDef | Alias | Struct) -> str:
        match declared:
            case ConstantDef(name, value):
                return f"constexpr auto {self.name(name)} = {self.expr(value)};"
            case Alias(name, kind):
                return f"using {name} = {kind};"
            case Struct(name, fields):
                inside = " ".join(f"{kind} {self.name(field)};" for field, kind in fields)
                return f"struct {name} {{ {inside} }};"

    def variable(self, variable: ModuleVariable) -> str:
        return f"{variable.kind} {self.name(variable.name)}"

    def binding(self, variable: ModuleVariable) -> str:
        """A pointer to the elements of a buffer; a uniform is passed by value."""
        if variable.space == "uniform":
            return f"const {variable.kind} {self.name(variable.name)}"
        array = array_parts(variable.kind)
        element = array[0] if array else variable.kind
        constant = "const " if variable.access == "read" else ""
        return f"{constant}{element}* {self.name(variable.name)}"

    def function(self, function: FunctionDef) -> list[str]:
        params = [(kind, name) for name, kind in function.params if not kind.startswith("@")]
        head = ", ".join(f"{kind} {self.name(name)}" for kind, name in params)
        builtins = [
            f"  const auto {self.name(name)} = {_BUILTINS[kind[1:]]};"
            for name, kind in function.params
            if kind.startswith("@")
        ]
        first = f"__device__ {function.result or 'void'} {self.name(function.name)}({head}) {{"
        return [
            *comment_lines(function.comment),
            first,
            *builtins,
            *self.indent(function.body),
            "}",
        ]

    def entry(self, name: str) -> list[str]:
        """The function that is launched: bindings in the order of the plan."""
        bound = [variable for variable in self._module.variables.values() if variable.slot]
        params = ", ".join(self.binding(variable) for variable in bound)
        names = ", ".join(self.name(variable.name) for variable in bound)
        threads = " * ".join(map(self.expr, self._module.workgroup))
        return [
            f'extern "C" __global__ void __launch_bounds__({threads})',
            f"{name}({params}) {{",
            f"  Kernel kernel{{{names}}};",
            "  kernel.main();",
            "}",
        ]
