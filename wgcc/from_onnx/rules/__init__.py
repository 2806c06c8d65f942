"""One function for each ONNX operator, in a file for each family."""

from __future__ import annotations

from wgcc.from_onnx.rules import (
    elementwise,
    images,
    indexing,
    norms,
    positions,
    products,
    quantised,
    recurrent,
    reductions,
    resizing,
    scatter,
    shapes,
    signals,
)
from wgcc.from_onnx.rules.rule import Rule

_FAMILIES = (
    elementwise, shapes, products, reductions, norms, images, indexing,
    recurrent, resizing, scatter, signals, positions, quantised,
)  # fmt: skip

# By domain ("" is ONNX's own) and operator.
RULES: dict[tuple[str, str], Rule] = {
    ("", name): rule for family in _FAMILIES for name, rule in family.RULES.items()
}
