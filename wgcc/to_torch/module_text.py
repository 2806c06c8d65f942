"""An entry of a program as the text of a PyTorch module."""

from __future__ import annotations

import keyword
import re

from wgcc.errors import WgError
from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.program import Program
from wgcc.ops import OPS, infer_types
from wgcc.ops.registry import Expand
from wgcc.to_torch.rules import DTYPES, RULES, listed

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


class ModuleText:
    """The lines of `forward`, with a Python name for every value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[str, str] = {}
        self.lines: list[str] = []
        self.problems: dict[str, None] = {}
        self.taken = {"self", "torch", "F", "nn", "Tensor"}

    def name(self, value: Value) -> str:
        """A name of its own: `blocks.0.attn.q` is `blocks_0_attn_q`."""
        base = re.sub(r"\W+", "_", value.name).strip("_") or "x"
        base = f"x{base}" if base[0].isdigit() else base
        found, number = base, 1
        while found in self.taken or keyword.iskeyword(found):
            number += 1
            found = f"{base}_{number}"
        self.taken.add(found)
        self.names[value.name] = found
        return found

    def write(self, node: Node) -> None:
        rule, lower = RULES.get(node.op), OPS[node.op].lower
        text = rule(node) if rule is not None else ""
        if text:
            parts = [self.names[value.name] for value in node.inputs]
            self.lines.append(f"{self.name(node.outputs[0])} = {text.format(*parts)}")
        elif isinstance(lower, Expand):
            self._write_parts(node, lower)
        else:
            place = f" ({node.span.place})" if node.span else ""
            self.problems[f"  {node.op}{place}"] = None
            for value in node.outputs:
                self.name(value)

    def _write_parts(self, node: Node, lower: Expand) -> None:
        taken = [*self.names, *(value.name for value in node.outputs)]
        builder = Builder(infer_types, taken=taken)
        found = lower.rule(builder, node)
        for inner in builder.nodes:
            self.write(inner)
        results = (found,) if isinstance(found, Value) else tuple(found)
        for value, result in zip(node.outputs, results, strict=False):
            self.names[value.name] = self.names[result.name]


def module_text(program: Program, entry: str, weights: str) -> str:
    """Raises `WgError` with all ops that cannot be written."""
    graph = program.entries[entry]
    if graph.writes:
        raise WgError(f"entry {entry} changes parameters or state: only others are exported")
    if graph.constants:
        raise WgError(f"entry {entry} holds computed constants, which have no text")
    body = ModuleText(graph)
    ports = [body.name(value) for value in graph.inputs]
    declared = [_declaration(value, body) for value in (*graph.params, *graph.state)]
    for node in graph.nodes:
        body.write(node)
    if body.problems:
        lines = "\n".join(body.problems)
        raise WgError(f"entry {entry} cannot be exported to PyTorch: it uses\n{lines}")
    head = HEAD.format(title=f"Exported from {program.name}.", name=program.name, weights=weights)
    arguments = ", ".join(f"{port}: Tensor" for port in ports)
    results = ", ".join(f'"{key}": {body.names[v.name]}' for key, v in graph.outputs.items())
    text = [head + "".join(f"        {line}\n" for line in declared)]
    text.append(f"    def forward(self, {arguments}) -> dict[str, Tensor]:\n")
    text += [f"        {line}\n" for line in body.lines]
    text.append(f"        return {{{results}}}\n")
    return "\n".join((text[0], "".join(text[1:])))


def stored_name(name: str) -> str:
    """In the state dict: `blocks.0.attn.q.w` is `blocks_0_attn_q_w`."""
    return re.sub(r"\W+", "_", name)


def _declaration(value: Value, body: ModuleText) -> str:
    """A tensor of the state dict; names with dots are written with underscores."""
    name = stored_name(value.name)
    body.names[value.name] = f"self.{name}"
    made = f"torch.zeros({listed(value.shape)}, dtype={DTYPES[value.dtype]})"
    if value.dtype == "f32":
        return f"self.{name} = nn.Parameter({made})"
    return f'self.register_buffer("{name}", {made})'
