"""One function for each ONNX operator, in a file for each family."""

from __future__ import annotations

from wgcc.from_onnx.rules import (
    elementwise,
    images,
    indexing,
    norms,
    products,
    rare,
    recurrent,
    resizing,
    shapes,
)
from wgcc.from_onnx.rules.rule import Rule

_FAMILIES = (
    elementwise, shapes, products, norms, images, indexing, recurrent, resizing, rare,
)  # fmt: skip

# By domain ("" is ONNX's own) and operator.
RULES: dict[tuple[str, str], Rule] = {
    ("", name): rule for family in _FAMILIES for name, rule in family.RULES.items()
}
RULES |= rare.OTHER_RULES
# Rules that find out the shapes of their results themselves: ONNX's own do not.
OWN_SHAPES = {*rare.OTHER_RULES} | {
    ("", name) for name in ("Compress", "OptionalGetElement", "MaxUnpool", "Slice", "Dropout")
}
