"""Numbers of any type as u32 in the same order, so that kernels compare integers.

Of floats, -0.0 is 0.0, and NaN is larger than everything. It is found by its bits, because drivers
may assume that there is no NaN, and optimise `x != x` away.
"""

from __future__ import annotations

from wgcc.kernel.build import statements
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Expr
from wgcc.schedule.codegen.terms import wgsl_type


def key_of(dtype: str, x: Expr, name: str) -> Body:
    """Statements that define `name`, a u32 that grows with the element `x`."""
    if dtype == "bool":
        return statements(f"let {name} = select(0u, 1u, X);", X=x)
    match wgsl_type(dtype):
        case "u32":
            return statements(f"let {name} = X;", X=x)
        case "i32":
            return statements(f"let {name} = bitcast<u32>(X) ^ 0x80000000u;", X=x)
    return statements(
        f"""
        let bits = bitcast<u32>(select(X, 0.0, X == 0.0));
        let ordered = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
        let {name} = select(ordered, 0xffffffffu, (bits & 0x7fffffffu) > 0x7f800000u);
        """,
        X=x,
    )
