"""Random entries over rows: sums, means, losses, and the number of rows in every disguise.

Templates name what they take: {BD} is an f32[B, D], {B} an f32[B], {y} labels, {D} an f32[D], {S} a
scalar, {n} a number known at compile time. Dims often have the same size as others.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

TYPES = {"BD": "f32[B, D]", "B": "f32[B]", "D": "f32[D]", "S": "f32", "y": "i32[B]"}
INPUTS = {"BD": ("x", "z"), "B": ("w",), "y": ("y",), "D": ("p",), "S": ("a",)}

TEMPLATES: dict[str, tuple[str, ...]] = {
    "BD": (
        "{BD} * {n}", "{BD} / {n}", "{BD} + {n}", "{n} - {BD}", "tanh({BD})", "{BD} * {BD}",
        "{BD} + {BD}", "{BD} * {B}[:, new]", "{BD} + {D}", "{BD} * {S}", "softmax({BD}, axis = 1)",
        "{BD} - mean({BD}, axis = 1, keep = true)", "where({BD} > 0.0, {BD}, {n})", "{BD} @ m",
        "exp({BD} / {n})", "one_hot({y}, D)", "cumsum({BD}, axis = 1)", "cumsum({BD}, axis = 0)",
        "ln({BD})", "reshape(reshape({BD}, [B * D]), [B, D])", "{BD} - mean({BD}, axis = 0)",
        "scaled({BD})", "lay({BD})", "clamp({BD}, -{n}, {n})", "{BD} ** 2", "flip({BD}, axis = 1)",
        "{BD} * ones(f32[B, D])", "{BD} + f32(arange(D))", "{BD} + f32(arange(B))[:, new]",
        "{BD} / sum(ones(f32[B]))", "leaky_relu({BD}, {n})", "transpose(transpose({BD}))",
        "stack([{B}, {B}, {B}], axis = 1) @ three", "dropped({BD}, {n})",
    ),
    "B": (
        "sum({BD}, axis = 1)", "mean({BD}, axis = 1)", "max({BD}, axis = 1)", "{BD}[:, 0]",
        "{B} * {n}", "{B} + {B}", "{B} / {n}", "{B} * {S}", "var({BD}, axis = 1)",
        "take_along_axis({BD}, {y}[:, new], axis = 1)[:, 0]", "f32({y})", "f32({y} == {y})",
        "where({B} > 0.0, {B}, {n})", "relu({B})", "norm({BD}, axis = 1)", "{BD} @ {D}",
        "{B} * f32(arange(B))", "{B} - mean({B})", "rolled({B})", "logsumexp({BD}, axis = 1)",
        "{B} * sum(ones(f32[B])) / {n}", "{BD}[arange(B), {y}]", "f32({y}) / {n}",
        "f32({y} * B)", "f32({y} / B)", "{B} % {n}", "loop({BD})",
    ),
    "D": (
        "sum({BD}, axis = 0)", "mean({BD}, axis = 0)", "{D} * {n}", "{D} / {n}", "{D} + {D}",
        "{D} * {D}", "{B} @ {BD}", "{BD}[0]", "max({BD}, axis = 0)", "{D} + {n}", "-{D}",
        "m @ {D}", "{D} * sum(ones(f32[B]))", "f32(arange(D))", "var({BD}, axis = 0)",
    ),
    "S": (
        "sum({BD})", "sum({B})", "mean({BD})", "mean({B})", "sum({B}) / {n}", "sum({B}) * {n}",
        "{n} * (sum({B}) + sum({BD}))", "{S} * {n}", "{S} / {n}", "{S} + {n}", "{S} + {S}",
        "{S} - {S}", "{S} * {S}", "{S} / {S}", "-{S}", "sum({D})", "mean({D})", "sum({D}) / {n}",
        "cross_entropy({BD}, {y})", "accuracy({BD}, {y})", "mse({BD}, {BD})", "mae({B}, {B})",
        "cross_entropy({BD}, {y}, ignore = 1)", "cross_entropy({BD}, {y}, smoothing = 0.1)",
        "nll(log_softmax({BD}, axis = 1), {y})", "accuracy({BD}, {y}, ignore = 0)",
        "bce_logits({BD}, sigmoid({BD}))", "huber({B}, {B}, delta = {n})",
        'kl_div({BD}, softmax({BD}, axis = 1), reduction = "batchmean")',
        'kl_div({BD}, softmax({BD}, axis = 1), reduction = "sum")', "f32(sum({y}))",
        "sum({B} * {B}) / sum({B} * {B})", "exp({S})", "sqrt(mean({BD} ** 2))", "std({B})",
        "var({B}, correction = 1)", "sum(m ** 2)", "mean(p)", "{S} * sum(ones(f32[B]))",
        "sum(where({B} > 0.0, 1.0, 0.0))", "sum({B} / {n})", "mean({B} * {n})",
        "sum({S} * ones(f32[B]))", "mean(mean({BD}, axis = 0))", "mean(sum({BD}, axis = 0))",
        "sum(mean({BD}, axis = 1)) / {n}", "f32(sum(arange(B)))", "max({BD})", "averaged({BD})",
        "f32(sum(i32({B} > 0.0))) / {n}", "sum({BD} * {B}[:, new]) / sum({B})", "lay.total({BD})",
        "sum(concat([{B}, {B}], axis = 0))", "stack([{S}, {S}])[0]",
        "einsum(\"b d -> \", {BD}) / {n}", "prod({D})", "f32(sum(f16({B}) * 0.5))",
    ),
    "y": ("{y}", "argmax({BD}, axis = 1)", "i32({B} > 0.0)", "clamp({y} + 1, 0, D - 1)"),
}  # fmt: skip

# The number of rows, what looks like it, and others.
NUMBERS = (
    "f32(B)", "1.0 / B", "f32(B * D)", "1.0 / (B * D)", "f32(B + 1)", "f32(B % 3 + 1)", "f32(E)",
    "1.0 / E", "f32(D)", "k", "1.0 / k", "half(B)", "f32(size(x))", "f32(size(w))",
    "f32(shape(x)[0])", "1.0 / shape(x)[0]", "f32(B * B)", "sqrt(f32(B))", "f32(B) / D", "c",
    "{B}.0", "{inverse}", "{twice}.0", "{half_inverse}", "0.5", "2.0", "3.0", "0.1", "1.0",
    "f32(B) ** 2", "f32(B) / f32(B)", "f32(maximum(B, 4))", "(if B > 4 then 2.0 else 3.0)",
    "f32(F)", "f32(B) - 1.0", "{B}.0 * 0.5", "0.5 * {inverse}", "f32(B * E)", "f32(B - B + 2)",
)  # fmt: skip

TEXT = """dim B = {rows}, E = {other}, F = 2 * B
dim D = {columns}
const k = f32(B)
const c = {constant}
fn half(n: dim) -> f32 = n * 0.5
fn scaled[N, M](v: f32[N, M]) -> f32[N, M] = v {scale}
fn averaged[N, M](v: f32[N, M]) -> f32 = sum(v) / {share}
fn dropped[N, M](v: f32[N, M], n: f32) -> f32[N, M] = where(v > n, v, 0.0)
fn rolled[N](v: f32[N]) -> f32[N] = v {scale_of_one}
fn step[N](h: f32[N], s: f32[N]) -> (f32[N], f32[N]) {{
  next = h {step} + s
  return next, next
}}
fn loop[N, M](v: f32[N, M]) -> f32[N] {{
  last, _ = scan(step, zeros(f32[N]), v, axis = 1)
  return last
}}
layer Own[N] {{
  param g: f32[N] = 0.5
  fn forward[R](v: f32[R, N]) -> f32[R, N] = v * g {scale}
  fn total[R](v: f32[R, N]) -> f32 = sum(v * g) / {share}
}}
model M {{
  param m: f32[D, D] ~ normal(0.0, 0.5)
  param p: f32[D] ~ normal(0.0, 0.5)
  param three: f32[3, D] ~ normal(0.0, 0.5)
  ln: LayerNorm[D]
  lay: Own[D]
  entry run(x: f32[B, D], z: f32[B, D], w: f32[B], y: i32[B], a: f32) -> ({outputs}) {{
{lines}
    return {results}
  }}
}}
"""


@dataclass(frozen=True)
class Program:
    text: str
    rows: int
    columns: int


def generate(seed: int) -> Program:
    draw = random.Random(seed)
    rows = draw.choice((1, 2, 3, 4, 5, 8, 10))
    columns = draw.choice((3, 4, 6, max(rows, 2), 2 * rows if rows > 1 else 5))
    maker = _Maker(draw, rows)
    lines = [maker.line() for _ in range(draw.randint(1, 4))]
    names = [*maker.made][-draw.randint(1, 2) :]
    text = TEXT.format(
        rows=rows,
        other=draw.choice((rows, 7)),
        columns=columns,
        constant=draw.choice(("0.5", "1.0 / B", f"{1 / rows!r}", f"{rows}.0")),
        scale=draw.choice(("* 1.0", "* N", "/ N", "* 0.5")).replace("N", draw.choice("NB")),
        scale_of_one=draw.choice(("* 1.0", "/ N", "* 2.0", "+ N")),
        step=draw.choice(("* 0.5", "/ N", "* N", f"* {1 / rows!r}")),
        share=draw.choice(("2.0", "B", f"{rows}.0", "4.0")),
        outputs=", ".join(f"o{i}: {TYPES[maker.made[name]]}" for i, name in enumerate(names)),
        lines="\n".join(f"    {line}" for line in lines),
        results=", ".join(names),
    )
    return Program(text, rows, columns)


class _Maker:
    def __init__(self, draw: random.Random, rows: int) -> None:
        self._draw, self._rows = draw, rows
        self.made: dict[str, str] = {}

    def line(self) -> str:
        kind = self._draw.choice(("BD", "B", "S", "S", "S", "D", "y"))
        text = self._of(kind, 0)
        name = f"v{len(self.made)}"
        self.made[name] = kind
        return f"{name} = {text}"

    def _of(self, kind: str, depth: int) -> str:
        known = [*INPUTS[kind], *(name for name, own in self.made.items() if own == kind)]
        if depth > 2 or (depth and self._draw.random() < 0.65):
            return self._draw.choice(known)
        template = self._draw.choice(TEMPLATES[kind])
        text = re.sub(r"\{(\w+)\}", lambda match: self._filled(match[1], depth + 1), template)
        return f"({text})" if depth else text

    def _filled(self, kind: str, depth: int) -> str:
        return self._number() if kind == "n" else self._of(kind, depth)

    def _number(self) -> str:
        rows = self._rows
        text = self._draw.choice(NUMBERS)
        text = text.replace("{B}", str(rows)).replace("{inverse}", repr(1 / rows))
        text = text.replace("{twice}", str(2 * rows)).replace("{half_inverse}", repr(0.5 / rows))
        return f"({text})"
