"""The arguments of WGSL's attributes: `@builtin(workgroup_id)`, `@binding(1)`."""

from __future__ import annotations

from wgcc.kernel.tokenize import WgslError
from wgcc.kernel.tree import Expr, Literal, Name


def name_argument(args: tuple[Expr, ...]) -> str:
    """The only argument of an attribute, which is a name."""
    if len(args) != 1 or not isinstance(args[0], Name):
        raise WgslError("the argument of an attribute is not a name")
    return args[0].name


def whole_argument(args: tuple[Expr, ...]) -> int:
    if len(args) != 1 or not isinstance(args[0], Literal):
        raise WgslError("the argument of an attribute is not a number")
    return int(args[0].value)
