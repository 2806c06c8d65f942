"""An entry of a program as the text of a PyTorch module."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping

from wgcc.errors import WgError
from wgcc.exporting.compositions import written_out
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import LoopNode, loop_of
from wgcc.ir.program import Program
from wgcc.to_torch.rules import DTYPES, expression, has_rule, tuple_text

HEAD = '''\
"""{title}

    from safetensors.torch import load_file
    model = {name}()
    model.load_state_dict(load_file("{weights}"))
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class {name}(nn.Module):
    def __init__(self) -> None:
        super().__init__()
'''
IMPORTED = ("self", "torch", "F", "nn", "Tensor")
# What every module has already.
OF_MODULES = {
    "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "compile",
    "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward",
    "get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half", "ipu",
    "load_state_dict", "modules", "mtia", "named_buffers", "named_children", "named_modules",
    "named_parameters", "parameters", "register_backward_hook", "register_buffer",
    "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook", "register_load_state_dict_post_hook",
    "register_load_state_dict_pre_hook", "register_module", "register_parameter",
    "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_",
    "set_extra_state", "set_submodule", "share_memory", "state_dict", "to", "to_empty",
    "train", "training", "type", "xpu", "zero_grad", "T_destination",
}  # fmt: skip


class ModuleText:
    """The lines of `forward`, with a Python name for every value."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.lines: list[str] = []
        self.problems: dict[str, None] = {}
        self._taken = set(IMPORTED)
        self._indent = ""

    def name(self, value: Value) -> str:
        """A name of its own: `blocks.0.attn.q` is `blocks_0_attn_q`."""
        self.names[value.name] = free_name(value.name, self._taken)
        return self.names[value.name]

    def add(self, line: str) -> None:
        self.lines.append(self._indent + line)

    def write(self, graph: Graph) -> None:
        if graph.constants:
            raise WgError(f"entry {graph.name} holds computed constants, which have no text")
        for node in graph.nodes:
            if loop := loop_of(node):
                self._write_loop(loop)
            elif has_rule(node):
                parts = [self.names[value.name] for value in node.inputs]
                self.add(f"{self.name(node.outputs[0])} = {expression(node).format(*parts)}")
            else:
                self._refuse(node)

    def _refuse(self, node: Node) -> None:
        place = f" ({node.span.place})" if node.span else ""
        self.problems[f"  {node.op}{place}"] = None
        for value in node.outputs:
            self.name(value)

    def _write_loop(self, loop: LoopNode) -> None:
        """`for t in range(rounds)`, with a list for every result of a round."""
        self.names |= {inner.name: self.names[outer.name] for outer, inner in loop.invariants}
        for inner, init in zip(loop.carries, loop.inits, strict=True):
            self.add(f"{self.name(inner)} = {self.names[init.name]}")
        lists = [free_name(f"{value.name}_list", self._taken) for value in loop.stacks]
        for list_name in lists:
            self.add(f"{list_name} = []")
        rounds = f"range({loop.rounds})"
        step = free_name("t", self._taken)
        self.add(f"for {step} in {f'reversed({rounds})' if loop.reverse else rounds}:")
        self._indent += "    "
        self._write_round(loop, step, lists)
        self._indent = self._indent[:-4]
        for value, list_name in zip(loop.stacks, lists, strict=True):
            order = f"{list_name}[::-1]" if loop.reverse else list_name
            self.add(f"{self.name(value)} = torch.stack({order})")
        for inner, final in zip(loop.carries, loop.finals, strict=True):
            self.names[final.name] = self.names[inner.name]

    def _write_round(self, loop: LoopNode, step: str, lists: list[str]) -> None:
        if any(loop.index in node.inputs for node in loop.body.nodes):
            made = f"torch.tensor({step}, dtype={DTYPES[loop.index.dtype]})"
            self.add(f"{self.name(loop.index)} = {made}")
        for outer, inner in loop.sliced:
            self.add(f"{self.name(inner)} = {self.names[outer.name]}[{step}]")
        self.write(loop.body)
        for list_name, value in zip(lists, loop.body.outputs.values(), strict=True):
            self.add(f"{list_name}.append({self.names[value.name]})")
        carries = ", ".join(self.names[value.name] for value in loop.carries)
        after = ", ".join(self.names[value.name] for value in loop.next_carries)
        if carries != after:
            self.add(f"{carries} = {after}")


def free_name(name: str, taken: set[str]) -> str:
    """A name for Python that is not taken yet, but is from now on."""
    base = re.sub(r"\W+", "_", name).strip("_") or "x"
    base = f"x{base}" if base[0].isdigit() else base
    candidate, number = base, 1
    while candidate in taken or keyword.iskeyword(candidate):
        number += 1
        candidate = f"{base}_{number}"
    taken.add(candidate)
    return candidate


def module_text(program: Program, entry: str, weights: str) -> str:
    """Raises `WgError` with all ops that cannot be written."""
    if program.entries[entry].writes:
        raise WgError(f"entry {entry} changes parameters or state: only others are exported")
    graph = written_out(program.entries[entry], has_rule)
    body, stored = ModuleText(), stored_names(graph)
    ports = [body.name(value) for value in graph.inputs]
    body.names |= {name: f"self.{attribute}" for name, attribute in stored.items()}
    body.write(graph)
    if body.problems:
        listing = "\n".join(body.problems)
        raise WgError(f"entry {entry} cannot be exported to PyTorch: it uses\n{listing}")
    class_name = free_name(program.name, {*IMPORTED, "Module"})
    head = HEAD.format(title=f"Exported from {program.name}.", name=class_name, weights=weights)
    arguments = "".join(f", {port}: Tensor" for port in ports)
    results = ", ".join(f'"{key}": {body.names[v.name]}' for key, v in graph.outputs.items())
    lines = [f"    def forward(self{arguments}) -> dict[str, Tensor]:"]
    lines += [f"        {line}" for line in (*body.lines, f"return {{{results}}}")]
    return head + _declarations(graph, stored) + "\n" + "\n".join(lines) + "\n"


def stored_names(graph: Graph) -> dict[str, str]:
    """Names in the state dict: `blocks.0.attn.q.w` is `blocks_0_attn_q_w`, and no two are equal."""
    taken = set(OF_MODULES)
    return {value.name: free_name(value.name, taken) for value in (*graph.params, *graph.state)}


def _declarations(graph: Graph, stored: Mapping[str, str]) -> str:
    values: Iterable[Value] = (*graph.params, *graph.state)
    return "".join(f"        {_declaration(value, stored[value.name])}\n" for value in values)


def _declaration(value: Value, name: str) -> str:
    made = f"torch.zeros({tuple_text(value.shape)}, dtype={DTYPES[value.dtype]})"
    if value.dtype == "f32":
        return f"self.{name} = nn.Parameter({made})"
    return f'self.register_buffer("{name}", {made})'
