"""Operators of onnxruntime (`com.microsoft`) by ONNX's own: a function for each, by family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.from_onnx.microsoft import activations, attention, norms, quantised
from wgcc.from_onnx.microsoft.body import Body, Definition
from wgcc.from_onnx.values import Operand

DOMAIN = "com.microsoft"
DEFINITIONS: dict[str, Definition] = {
    name: rule
    for family in (activations, attention, norms, quantised)
    for name, rule in family.DEFINITIONS.items()
}


def function_body(node: Any, inputs: Sequence[Operand | None]) -> Any:
    """The function that an operator is; None for one that is not known."""
    if node.domain != DOMAIN or node.op_type not in DEFINITIONS:
        return None
    body = Body(node, inputs)
    return body.function(DEFINITIONS[node.op_type](body))
