"""One function for each ONNX operator, in a file for each family."""

from __future__ import annotations

from wgcc.from_onnx.rules import (
    elementwise,
    images,
    indexing,
    ngrams,
    norms,
    positions,
    products,
    quantised,
    random,
    recurrent,
    reductions,
    resizing,
    scatter,
    shapes,
    signals,
    updates,
)
from wgcc.from_onnx.rules.rule import Rule

_FAMILIES = (
    elementwise, shapes, products, reductions, norms, images, indexing,
    recurrent, resizing, scatter, signals, positions, quantised, random, ngrams,
)  # fmt: skip

# By domain ("" is ONNX's own) and operator.
RULES: dict[tuple[str, str], Rule] = {
    ("", name): rule for family in _FAMILIES for name, rule in family.RULES.items()
}
RULES |= {("ai.onnx.preview.training", name): rule for name, rule in updates.RULES.items()}
RULES |= {("ai.onnx.ml", name): rule for name, rule in positions.CLASSIC_RULES.items()}
# Rules that find out the shapes of their results themselves: ONNX's own do not.
OWN_SHAPES = {
    *(("ai.onnx.preview.training", name) for name in updates.RULES),
    *(("ai.onnx.ml", name) for name in positions.CLASSIC_RULES),
    ("", "Compress"), ("", "OptionalGetElement"), ("", "MaxUnpool"), ("", "Slice"), ("", "Dropout"),
}  # fmt: skip
