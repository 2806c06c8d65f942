"""Numbers of any type as u32 in the same order, so that kernels compare integers.

Of floats, -0.0 is 0.0, and NaN is larger than everything. It is found by its bits, because drivers
may assume that there is no NaN, and optimise `x != x` away.
"""

from __future__ import annotations

from wgcc.schedule.codegen.wgsl import wgsl_type


def key_lines(dtype: str, x: str, name: str) -> list[str]:
    """Statements that define `name`, a u32 that grows with the element `x`."""
    if dtype == "bool":
        return [f"let {name} = select(0u, 1u, {x});"]
    kind = wgsl_type(dtype)
    if kind != "f32":
        key = x if kind == "u32" else f"bitcast<u32>({x}) ^ 0x80000000u"
        return [f"let {name} = {key};"]
    return [
        f"let bits = bitcast<u32>(select({x}, 0.0, {x} == 0.0));",
        "let ordered = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);",
        f"let {name} = select(ordered, 0xffffffffu, (bits & 0x7fffffffu) > 0x7f800000u);",
    ]
