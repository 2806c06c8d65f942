"""Random functions of scalars in WGSL, whose results do not hang on a rounding error.

What jumps (comparisons, rounding, conversion to integers) is applied to operands alone, which are
the same on every machine; integers wrap around, so they may be anything.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from wgcc.kernel.own.read import WrongWgsl, read_functions

KINDS = ("f32", "i32", "u32", "bool")
SMOOTH = ("sin", "cos", "tanh", "atan", "abs", "saturate")


@dataclass
class Writer:
    """`names` are the values in sight, by type; `exact` of them are operands or whole numbers."""

    chance: random.Random
    names: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    operands: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    variables: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    helpers: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)
    count: int = 0

    def file(self, functions: int) -> tuple[str, list[tuple[str, tuple[str, ...], str]]]:
        """The text, and the name, parameters and result of each function."""
        texts = ["const SCALE = 0.75 * 0.5;", "const SEVEN = 7;"]
        while len(self.helpers) < functions:
            texts.append(self._function(f"f{len(self.helpers)}"))
            try:
                read_functions("\n".join(texts), "", lambda name: name)
            except WrongWgsl as error:
                # Numbers known beforehand that do not exist, and functions that take too long.
                assert re.search("does not exist|cannot be|operations", error.message), error
                texts.pop()
                self.helpers.pop()
        return "\n\n".join(texts) + "\n", self.helpers

    def _function(self, name: str) -> str:
        chance = self.chance
        kinds = tuple(chance.choice(KINDS) for _ in range(chance.randint(1, 4)))
        result = chance.choice(KINDS)
        self.names, self.operands, self.variables = ({k: [] for k in KINDS} for _ in range(3))
        params = []
        for place, kind in enumerate(kinds):
            params.append(f"p{place}: {kind}")
            self.names[kind].append(f"p{place}")
            self.operands[kind].append(f"p{place}")
        body = self._block(3, chance.randint(2, 5))
        if chance.random() < 0.4:
            early = f"return {self.value(result, 2)};"
            body.append(f"if ({self._test()}) {{ {early} }}")
        body.append(f"return {self.value(result, 3)};")
        self.helpers.append((name, kinds, result))
        lines = "\n".join(f"  {line}" for text in body for line in text.split("\n"))
        return f"fn {name}({', '.join(params)}) -> {result} {{\n{lines}\n}}"

    def _block(self, depth: int, length: int) -> list[str]:
        return [self._statement(depth) for _ in range(length)]

    def _statement(self, depth: int) -> str:
        chance, kind = self.chance, self.chance.choice(KINDS)
        form = chance.random()
        if form < 0.5 or depth == 0:
            return self._declaration(kind)
        if form < 0.7 and self.variables[kind]:
            return f"{chance.choice(self.variables[kind])} = {self.value(kind, 3)};"
        if form < 0.88:
            return self._inside(f"if ({self._test()})", depth, with_else=chance.random() < 0.5)
        self.count += 1
        counter, end = f"i{self.count}", chance.choice(("3", "SEVEN", "20"))
        head = f"for (var {counter} = 0; {counter} < {end}; {counter}++)"
        return self._inside(head, depth, counter=counter)

    def _declaration(self, kind: str) -> str:
        self.count += 1
        name, value = f"v{self.count}", self.value(kind, 3)
        word = self.chance.choice(("let", "var"))
        typed = f"{name}: {kind}" if self.chance.random() < 0.3 else name
        # Without a type, a number alone might have another one.
        value = value if typed != name else f"{kind}({value})"
        self.names[kind].append(name)
        if word == "var":
            self.variables[kind].append(name)
        return f"{word} {typed} = {value};"

    def _inside(self, head: str, depth: int, with_else: bool = False, counter: str = "") -> str:
        parts = []
        for _ in range(1 + with_else):
            saved = (
                {k: list(v) for k, v in table.items()} for table in (self.names, self.variables)
            )
            names, variables = saved
            if counter:
                self.names["i32"].append(counter)
            lines = self._block(depth - 1, self.chance.randint(1, 3))
            parts.append("\n".join(f"  {line}" for text in lines for line in text.split("\n")))
            self.names, self.variables = names, variables
        return f"{head} {{\n" + "\n} else {\n".join(parts) + "\n}"

    def _test(self) -> str:
        """A condition that is the same on every machine."""
        kind = self.chance.choice([k for k in KINDS if self.operands[k]])
        a = self.chance.choice(self.operands[kind])
        if kind == "bool":
            return self.chance.choice((a, f"!{a}"))
        op = self.chance.choice(("<", ">", "<=", ">=", "==", "!="))
        return f"{a} {op} {self._number(kind)}"

    def _number(self, kind: str) -> str:
        chance = self.chance
        if kind == "f32":
            return chance.choice(("0.5", "-1.25", "2.0f", "SCALE", "1e-3", "0.0"))
        if kind == "bool":
            return chance.choice(("true", "false"))
        return (
            chance.choice(("1u", "31u", "0xffu", "7u"))
            if kind == "u32"
            else chance.choice(("1", "-3", "SEVEN", "1000i", "-2147483648"))
        )

    def value(self, kind: str, depth: int) -> str:
        leaf = depth == 0 or self.chance.random() < 0.2
        if leaf:
            names = self.names[kind]
            return (
                self.chance.choice(names)
                if names and self.chance.random() < 0.75
                else self._number(kind)
            )
        callable_ = [item for item in self.helpers if item[2] == kind]
        if callable_ and self.chance.random() < 0.1:
            name, kinds, _ = self.chance.choice(callable_)
            return f"{name}({', '.join(self.value(k, 1) for k in kinds)})"
        if self.chance.random() < 0.12:
            no, yes = (self.value(kind, depth - 1) for _ in range(2))
            return f"select({no}, {yes}, {self._test()})"
        return {"f32": self._float, "bool": self._bool}.get(kind, self._whole)(kind, depth - 1)

    def _float(self, kind: str, depth: int) -> str:
        chance = self.chance
        form = chance.random()
        a, b = self.value("f32", depth), self.value("f32", depth)
        if form < 0.35:
            # A whole number alone has the type of the other side.
            names = self.names["f32"]
            left, right = (chance.choice(names), "3") if names and form < 0.05 else (a, b)
            return f"({left} {chance.choice('+-*')} {right})"
        if form < 0.45:
            return f"({a} / (1.5 + abs({b})))"
        if form < 0.7:
            return f"{chance.choice(SMOOTH)}(clamp({a}, -30.0, 30.0))"
        if form < 0.8:
            return f"{chance.choice(('min', 'max'))}({a}, {b})"
        if form < 0.9:
            operand = chance.choice(self.operands["f32"] or ["1.75"])
            return f"{chance.choice(('floor', 'round', 'trunc', 'ceil', 'sign'))}(4.0 * {operand})"
        if form < 0.95:
            return chance.choice((f"exp(-abs({a}))", f"sqrt(abs({a}))", f"log(1.0 + abs({a}))"))
        whole = chance.choice(("i32", "u32"))
        return f"f32({self.value(whole, depth)} % {'7u' if whole == 'u32' else '7'})"

    def _whole(self, kind: str, depth: int) -> str:
        chance = self.chance
        form = chance.random()
        a, b = self.value(kind, depth), self.value(kind, depth)
        if form < 0.4:
            # Two numbers known beforehand may not give one that does not fit.
            return f"({kind}({self._runtime(kind)}) {chance.choice('+-*&|^')} {b})"
        if form < 0.55:
            return f"({self._runtime(kind)} {chance.choice('/%')} {self._runtime(kind)})"
        if form < 0.65:
            return f"({self._runtime(kind)} {chance.choice(('<<', '>>'))} {self.value('u32', 0)})"
        if form < 0.75:
            return f"{chance.choice(('min', 'max'))}({a}, {b})"
        if form < 0.85 and self.operands["f32"]:
            return f"{kind}(8.0 * {chance.choice(self.operands['f32'])})"
        if form < 0.92:
            return f"~{self._runtime(kind)}"
        other = "u32" if kind == "i32" else "i32"
        return f"{kind}({self._runtime(other)})"

    def _runtime(self, kind: str) -> str:
        """A value that is not known beforehand, if there is one."""
        if self.names[kind]:
            return self.chance.choice(self.names[kind])
        test = self._test()
        one, two = ("3u", "5u") if kind == "u32" else ("3", "-5")
        return f"select({one}, {two}, {test})"

    def _bool(self, kind: str, depth: int) -> str:
        a, b = self.value("bool", depth), self.value("bool", depth)
        forms = (f"({a} && {b})", f"({a} || {b})", f"!({a})", self._test())
        return self.chance.choice(forms)
