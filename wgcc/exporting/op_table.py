"""Ops that are one expression elsewhere: in the language, in ONNX and in PyTorch.

Rules of the exporters write the others, and those whose column is empty here.
"""

from __future__ import annotations

from typing import NamedTuple


class Forms(NamedTuple):
    """Templates whose holes `{0}`, `{1}` … are the operands; that of ONNX calls its operators."""

    language: str
    onnx: str
    torch: str


EXPRESSIONS = {
    "abs": Forms("abs({0})", "Abs({0})", "{0}.abs()"),
    "acos": Forms("acos({0})", "Acos({0})", "torch.acos({0})"),
    "add": Forms("{0} + {1}", "Add({0}, {1})", "{0} + {1}"),
    "asin": Forms("asin({0})", "Asin({0})", "torch.asin({0})"),
    "atan": Forms("atan({0})", "Atan({0})", "torch.atan({0})"),
    "atan2": Forms("atan2({0}, {1})", "", "torch.atan2({0}, {1})"),
    "ceil": Forms("ceil({0})", "Ceil({0})", "torch.ceil({0})"),
    "copy": Forms("{0}", "Identity({0})", "{0}"),
    "cos": Forms("cos({0})", "Cos({0})", "torch.cos({0})"),
    "cosh": Forms("cosh({0})", "Cosh({0})", "torch.cosh({0})"),
    "div": Forms("{0} / {1}", "", ""),
    "elu": Forms("", "Elu({0})", "F.elu({0})"),
    "eq": Forms("{0} == {1}", "Equal({0}, {1})", "{0} == {1}"),
    "erf": Forms("erf({0})", "Erf({0})", "torch.erf({0})"),
    "exp": Forms("exp({0})", "Exp({0})", "torch.exp({0})"),
    "expm1": Forms("expm1({0})", "Sub(Exp({0}), 1.0)", "torch.expm1({0})"),
    "floor": Forms("floor({0})", "Floor({0})", "torch.floor({0})"),
    "gather": Forms("{0}[{1}]", "", "{0}[{1}.long()]"),
    "ge": Forms("{0} >= {1}", "GreaterOrEqual({0}, {1})", "{0} >= {1}"),
    "gelu": Forms("gelu({0})", "Gelu({0})", "F.gelu({0})"),
    "gt": Forms("{0} > {1}", "Greater({0}, {1})", "{0} > {1}"),
    "is_finite": Forms("isfinite({0})", "Not(Or(IsInf({0}), IsNaN({0})))", "torch.isfinite({0})"),
    "is_nan": Forms("isnan({0})", "IsNaN({0})", "torch.isnan({0})"),
    "le": Forms("{0} <= {1}", "LessOrEqual({0}, {1})", "{0} <= {1}"),
    "log": Forms("log({0})", "Log({0})", "torch.log({0})"),
    "log1p": Forms("log1p({0})", "Log(Add({0}, 1.0))", "torch.log1p({0})"),
    "logical_and": Forms("{0} and {1}", "And({0}, {1})", "{0} & {1}"),
    "logical_not": Forms("not {0}", "Not({0})", "~{0}"),
    "logical_or": Forms("{0} or {1}", "Or({0}, {1})", "{0} | {1}"),
    "lt": Forms("{0} < {1}", "Less({0}, {1})", "{0} < {1}"),
    "matmul": Forms("{0} @ {1}", "MatMul({0}, {1})", "{0} @ {1}"),
    "maximum": Forms("maximum({0}, {1})", "Max({0}, {1})", "torch.maximum({0}, {1})"),
    "minimum": Forms("minimum({0}, {1})", "Min({0}, {1})", "torch.minimum({0}, {1})"),
    "mish": Forms("mish({0})", "Mish({0})", "F.mish({0})"),
    "mod": Forms("{0} % {1}", "", "torch.remainder({0}, {1})"),
    "mul": Forms("{0} * {1}", "Mul({0}, {1})", "{0} * {1}"),
    "ne": Forms("{0} != {1}", "Not(Equal({0}, {1}))", "{0} != {1}"),
    "neg": Forms("-{0}", "Neg({0})", "-{0}"),
    "pow": Forms("{0} ** {1}", "Pow({0}, {1})", "{0} ** {1}"),
    "reciprocal": Forms("1.0 / {0}", "Reciprocal({0})", "1.0 / {0}"),
    "relu": Forms("relu({0})", "Relu({0})", "F.relu({0})"),
    "round": Forms("round({0})", "Round({0})", "torch.round({0})"),
    "rsqrt": Forms("rsqrt({0})", "Reciprocal(Sqrt({0}))", "torch.rsqrt({0})"),
    "sigmoid": Forms("sigmoid({0})", "Sigmoid({0})", "torch.sigmoid({0})"),
    "sign": Forms("sign({0})", "Sign({0})", "torch.sign({0})"),
    "silu": Forms("silu({0})", "Mul({0}, Sigmoid({0}))", "F.silu({0})"),
    "sin": Forms("sin({0})", "Sin({0})", "torch.sin({0})"),
    "sinh": Forms("sinh({0})", "Sinh({0})", "torch.sinh({0})"),
    "softplus": Forms("softplus({0})", "Softplus({0})", "F.softplus({0})"),
    "sqrt": Forms("sqrt({0})", "Sqrt({0})", "torch.sqrt({0})"),
    "square": Forms("square({0})", "Mul({0}, {0})", "{0} ** 2"),
    "stop_grad": Forms("stop_grad({0})", "Identity({0})", "{0}.detach()"),
    "sub": Forms("{0} - {1}", "Sub({0}, {1})", "{0} - {1}"),
    "tan": Forms("tan({0})", "Tan({0})", "torch.tan({0})"),
    "tanh": Forms("tanh({0})", "Tanh({0})", "torch.tanh({0})"),
    "trunc": Forms("trunc({0})", "Mul(Floor(Abs({0})), Sign({0}))", "torch.trunc({0})"),
    "where": Forms("where({0}, {1}, {2})", "", "torch.where({0}, {1}, {2})"),
}
# Functions and operators of a tensor and of axes that go.
REDUCTIONS = {
    "sum": Forms("sum", "ReduceSum", "torch.sum"),
    "max": Forms("max", "ReduceMax", "torch.amax"),
    "peak": Forms("max", "ReduceMax", "torch.amax"),
    "min": Forms("min", "ReduceMin", "torch.amin"),
    "prod": Forms("prod", "ReduceProd", ""),
    "any": Forms("any", "", ""),
    "all": Forms("all", "", ""),
    "logsumexp": Forms("logsumexp", "ReduceLogSumExp", "torch.logsumexp"),
}
