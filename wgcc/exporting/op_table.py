"""Ops that are one expression elsewhere: in the language, in ONNX and in PyTorch.

Rules of the exporters write the others, and those whose column is empty here.
"""

from __future__ import annotations

from typing import NamedTuple


class OpForms(NamedTuple):
    """Templates whose holes `{0}`, `{1}` … are the operands; that of ONNX calls its operators."""

    language: str
    onnx: str
    torch: str


EXPRESSIONS = {
    "abs": OpForms("abs({0})", "Abs({0})", "{0}.abs()"),
    "acos": OpForms("acos({0})", "Acos({0})", "torch.acos({0})"),
    "add": OpForms("{0} + {1}", "Add({0}, {1})", "{0} + {1}"),
    "asin": OpForms("asin({0})", "Asin({0})", "torch.asin({0})"),
    "atan": OpForms("atan({0})", "Atan({0})", "torch.atan({0})"),
    "atan2": OpForms("atan2({0}, {1})", "", "torch.atan2({0}, {1})"),
    "ceil": OpForms("ceil({0})", "Ceil({0})", "torch.ceil({0})"),
    "copy": OpForms("{0}", "Identity({0})", "{0}"),
    "cos": OpForms("cos({0})", "Cos({0})", "torch.cos({0})"),
    "cosh": OpForms("cosh({0})", "Cosh({0})", "torch.cosh({0})"),
    "div": OpForms("{0} / {1}", "", ""),
    "elu": OpForms("", "Elu({0})", "F.elu({0})"),
    "eq": OpForms("{0} == {1}", "Equal({0}, {1})", "{0} == {1}"),
    "erf": OpForms("erf({0})", "Erf({0})", "torch.erf({0})"),
    "exp": OpForms("exp({0})", "Exp({0})", "torch.exp({0})"),
    "expm1": OpForms("expm1({0})", "Sub(Exp({0}), 1.0)", "torch.expm1({0})"),
    "floor": OpForms("floor({0})", "Floor({0})", "torch.floor({0})"),
    "gather": OpForms("{0}[{1}]", "", "{0}[{1}.long()]"),
    "ge": OpForms("{0} >= {1}", "GreaterOrEqual({0}, {1})", "{0} >= {1}"),
    "gelu": OpForms("gelu({0})", "Gelu({0})", "F.gelu({0})"),
    "gt": OpForms("{0} > {1}", "Greater({0}, {1})", "{0} > {1}"),
    "is_finite": OpForms("isfinite({0})", "Not(Or(IsInf({0}), IsNaN({0})))", "torch.isfinite({0})"),
    "is_nan": OpForms("isnan({0})", "IsNaN({0})", "torch.isnan({0})"),
    "le": OpForms("{0} <= {1}", "LessOrEqual({0}, {1})", "{0} <= {1}"),
    "log": OpForms("log({0})", "Log({0})", "torch.log({0})"),
    "log1p": OpForms("log1p({0})", "Log(Add({0}, 1.0))", "torch.log1p({0})"),
    "logical_and": OpForms("{0} and {1}", "And({0}, {1})", "{0} & {1}"),
    "logical_not": OpForms("not {0}", "Not({0})", "~{0}"),
    "logical_or": OpForms("{0} or {1}", "Or({0}, {1})", "{0} | {1}"),
    "lt": OpForms("{0} < {1}", "Less({0}, {1})", "{0} < {1}"),
    "matmul": OpForms("{0} @ {1}", "MatMul({0}, {1})", "{0} @ {1}"),
    "maximum": OpForms("maximum({0}, {1})", "Max({0}, {1})", "torch.maximum({0}, {1})"),
    "minimum": OpForms("minimum({0}, {1})", "Min({0}, {1})", "torch.minimum({0}, {1})"),
    "mish": OpForms("mish({0})", "Mish({0})", "F.mish({0})"),
    "mod": OpForms("{0} % {1}", "", "torch.remainder({0}, {1})"),
    "mul": OpForms("{0} * {1}", "Mul({0}, {1})", "{0} * {1}"),
    "ne": OpForms("{0} != {1}", "Not(Equal({0}, {1}))", "{0} != {1}"),
    "neg": OpForms("-{0}", "Neg({0})", "-{0}"),
    "pow": OpForms("{0} ** {1}", "Pow({0}, {1})", "{0} ** {1}"),
    "reciprocal": OpForms("1.0 / {0}", "Reciprocal({0})", "1.0 / {0}"),
    "relu": OpForms("relu({0})", "Relu({0})", "F.relu({0})"),
    "round": OpForms("round({0})", "Round({0})", "torch.round({0})"),
    "rsqrt": OpForms("rsqrt({0})", "Reciprocal(Sqrt({0}))", "torch.rsqrt({0})"),
    "sigmoid": OpForms("sigmoid({0})", "Sigmoid({0})", "torch.sigmoid({0})"),
    "sign": OpForms("sign({0})", "Sign({0})", "torch.sign({0})"),
    "silu": OpForms("silu({0})", "Mul({0}, Sigmoid({0}))", "F.silu({0})"),
    "sin": OpForms("sin({0})", "Sin({0})", "torch.sin({0})"),
    "sinh": OpForms("sinh({0})", "Sinh({0})", "torch.sinh({0})"),
    "softplus": OpForms("softplus({0})", "Softplus({0})", "F.softplus({0})"),
    "sqrt": OpForms("sqrt({0})", "Sqrt({0})", "torch.sqrt({0})"),
    "square": OpForms("square({0})", "Mul({0}, {0})", "{0} ** 2"),
    "stop_grad": OpForms("stop_grad({0})", "Identity({0})", "{0}.detach()"),
    "sub": OpForms("{0} - {1}", "Sub({0}, {1})", "{0} - {1}"),
    "tan": OpForms("tan({0})", "Tan({0})", "torch.tan({0})"),
    "tanh": OpForms("tanh({0})", "Tanh({0})", "torch.tanh({0})"),
    "trunc": OpForms("trunc({0})", "Mul(Floor(Abs({0})), Sign({0}))", "torch.trunc({0})"),
    "where": OpForms("where({0}, {1}, {2})", "", "torch.where({0}, {1}, {2})"),
}
# Functions of a tensor and of one axis.
ALONG = {
    "argmax": OpForms("argmax", "ArgMax", "{0}.argmax(AXIS).int()"),
    "argmin": OpForms("argmin", "ArgMin", "{0}.argmin(AXIS).int()"),
    "cumsum": OpForms("cumsum", "", "torch.cumsum({0}, AXIS)"),
    "softmax": OpForms("softmax", "Softmax", "F.softmax({0}, AXIS)"),
    "log_softmax": OpForms("log_softmax", "LogSoftmax", "F.log_softmax({0}, AXIS)"),
}
# Functions and operators of a tensor and of axes that go.
REDUCTIONS = {
    "sum": OpForms("sum", "ReduceSum", "torch.sum"),
    "max": OpForms("max", "ReduceMax", "torch.amax"),
    "peak": OpForms("max", "ReduceMax", "torch.amax"),
    "min": OpForms("min", "ReduceMin", "torch.amin"),
    "prod": OpForms("prod", "ReduceProd", ""),
    "any": OpForms("any", "", ""),
    "all": OpForms("all", "", ""),
    "logsumexp": OpForms("logsumexp", "ReduceLogSumExp", "torch.logsumexp"),
}
