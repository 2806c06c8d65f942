"""Random kernels of whole numbers: tests, loops, functions, arrays and barriers of all sorts."""

from __future__ import annotations

from random import Random

HEAD = """
@group(0) @binding(0) var<storage, read> x0: array<u32, {x0}>;
@group(0) @binding(1) var<storage, read_write> y0: array<u32, {y0}>;
var<workgroup> tile: array<u32, SIZE * {factor}u>;
var<private> own: u32;
const SIZE = {size}u;
const LENGTH = {length}u;

fn half(a: u32, b: u32) -> u32 {{
  if (a > b) {{ return a / {divisor}u; }}
  own = b;
  return {body};
}}

@compute @workgroup_size({lanes})
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) slot: u32) {{
"""
ARRAYS = ("x0", "y0", "tile")


class RandomKernel:
    """`text` is the kernel; `lengths` are those of its arrays."""

    def __init__(self, seed: int, lanes: int) -> None:
        self._random = random = Random(seed)
        size, factor = random.randint(1, 9), random.randint(1, 4)
        self.lengths = {
            "x0": random.randint(1, 40),
            "y0": random.randint(1, 200),
            "tile": size * factor,
        }
        self._names = [["id.x", "slot", "SIZE", "LENGTH"]]
        self._signed: list[list[str]] = [[]]
        self._variables = [["own"]]
        self._count = 0
        head = HEAD.format(
            **{name: self.lengths[name] for name in ("x0", "y0")},
            size=size,
            factor=factor,
            length=random.randint(1, 64),
            divisor=random.randint(1, 5),
            body=random.choice(("min(a, 7u)", "a % (b + 1u)", "b - a", "a + b", "a & 15u")),
            lanes=lanes,
        )
        self.text = head + self._block(depth=3, indent="  ", count=random.randint(4, 9)) + "}\n"

    def _block(self, depth: int, indent: str, count: int = 0) -> str:
        for names in (self._names, self._signed, self._variables):
            names.append([])
        lines = [self._statement(depth, indent) for _ in range(count or self._random.randint(1, 4))]
        for names in (self._names, self._signed, self._variables):
            names.pop()
        return "".join(lines)

    def _statement(self, depth: int, indent: str) -> str:
        random = self._random
        kinds = ["let", "signed", "var", "var", "assign", "assign", "assign", "store", "store"]
        kinds += ["load", "load", "call"]
        kinds += ["if", "if", "for", "return", "barrier"] if depth else []
        kind = random.choice(kinds)
        match kind:
            case "if":
                other = ""
                if random.random() < 0.3:
                    other = f" else {{\n{self._block(depth - 1, indent + '  ')}{indent}}}"
                inner = self._block(depth - 1, indent + "  ")
                return f"{indent}if ({self._condition()}) {{\n{inner}{indent}}}{other}\n"
            case "for":
                return self._for(depth, indent)
            case "return":
                return f"{indent}if ({self._condition()}) {{ return; }}\n"
            case "barrier":
                return f"{indent}workgroupBarrier();\n"
            case "store":
                return (
                    f"{indent}{random.choice(('y0', 'tile'))}[{self._index()}] = {self._expr(1)};\n"
                )
            case "assign":
                name = random.choice([n for names in self._variables for n in names])
                op = random.choice(("=", "+=", "-=", "*=", "/=", "%="))
                return f"{indent}{name} {op} {self._expr(1)};\n"
        return f"{indent}{self._declared(kind)}\n"

    def _declared(self, kind: str) -> str:
        """Values are computed before their name is known."""
        self._count += 1
        name = self._random.choice((f"v{self._count}", f"v{self._count}", "slot_", "i"))
        value, scope = "", self._names[-1]
        match kind:
            case "signed":
                scope = self._signed[-1]
                value = f"i32({self._expr(2)}) - {self._random.randint(0, 20)}"
            case "load":
                value = f"{self._random.choice(ARRAYS)}[{self._index()}]"
            case "call":
                value = f"half({self._expr(1)}, {self._expr(1)})"
            case _:
                value = self._expr(3)
        if name in (*self._names[-1], *self._signed[-1]) or self._clashes(name, scope):
            name = f"v{self._count}"
        scope.append(name)
        if kind == "var":
            self._variables[-1].append(name)
            return f"var {name} = {value};"
        return f"let {name} = {value};"

    def _clashes(self, name: str, scope: list[str]) -> bool:
        """A name that means a number of another type, or may not be assigned, further out."""
        return any(name in names for names in (*self._names, *self._signed) if names is not scope)

    def _for(self, depth: int, indent: str) -> str:
        random = self._random
        self._count += 1
        name = f"k{self._count}"
        first, end = self._expr(1), self._expr(1)
        head = random.choice(
            (
                f"{name} < {end}; {name} += {random.randint(1, 5)}u",
                f"{name} < {end}; {name}++",
                f"{name} <= {end}; {name} *= 2u",
                f"{name} > 0u; {name} /= 2u",
                f"{name} > 0u; {name} -= 1u",
                f"{name} < {end}; {name} -= 1u",
                f"{name} < {end}; {name} += {self._expr(1)}",
                f"{name} != {end}; {name}++",
            )
        )
        self._names.append([name])
        if random.random() < 0.1:
            self._variables.append([name])
        else:
            self._variables.append([])
        body = self._block(depth - 1, indent + "  ")
        self._names.pop()
        self._variables.pop()
        return f"{indent}for (var {name} = {first}; {head}) {{\n{body}{indent}}}\n"

    def _index(self) -> str:
        random = self._random
        array = random.choice(ARRAYS)
        length = self.lengths[array]
        inner = self._expr(2)
        return random.choice(
            (
                inner,
                inner,
                f"({inner}) % {length}u",
                f"min({inner}, {length - 1}u)",
                f"select(0u, {inner}, {inner} < {length}u)",
                f"u32(clamp(i32({inner}) - 3, 0, {length - 1}))",
            )
        )

    def _condition(self) -> str:
        random = self._random
        op = random.choice(("<", "<", "<", ">=", "<=", ">", "==", "!="))
        signed = [n for names in self._signed for n in names]
        if signed and random.random() < 0.3:
            text = f"{random.choice(signed)} {op} {random.randint(-5, 20)}"
        else:
            text = f"{self._expr(2)} {op} {self._expr(1)}"
        if random.random() < 0.3:
            text = f"{text} {random.choice(('&&', '||'))} {self._condition()}"
            return f"({text})" if random.random() < 0.5 else f"!({text})"
        return f"({text})"

    def _expr(self, depth: int) -> str:
        random = self._random
        if depth == 0 or random.random() < 0.25:
            names = [n for names in self._names for n in names]
            if random.random() < 0.3:
                names = [n for names in self._variables for n in names]
            small = f"{random.choice((0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 64))}u"
            return random.choice((small, random.choice(names), random.choice(names)))
        a, b = self._expr(depth - 1), self._expr(depth - 1)
        signed = [n for names in self._signed for n in names]
        if signed and random.random() < 0.2:
            return f"u32({random.choice(signed)} % {random.randint(1, 9)})"
        op = random.choice(("+", "+", "*", "-", "/", "%", "%", "&", "|", "^", "<<", ">>"))
        if random.random() < 0.15:
            return f"{random.choice(('min', 'max'))}({a}, {b})"
        return f"({a} {op} {b})"
