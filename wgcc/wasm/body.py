"""Statements of a kernel as instructions: what one thread of a GPU does, four threads at a time.

Bindings are addresses in memory. What lanes would have to do at different times is not for vectors:
`Unvectorisable`.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.wasm.loops import Loops
from wgcc.wasm.span import LANES
from wgcc.wasm.things import Env, Held, Mutable, Unvectorisable, type_code
from wgcc.wasm.wgsl_tree import (
    Assign,
    Call,
    Element,
    If,
    Let,
    Literal,
    Loop,
    Name,
    Return,
    Run,
    Statement,
)

UNNAMED = ("f32", "i32", "u32", "bool", "x")


class Body(Loops):
    def run(self, statements: Sequence[Statement], env: Env) -> Held | None:
        """What is returned, if something is."""
        for statement in statements:
            match statement:
                case Return(value):
                    return self.value(value, env) if value else None
                case Let():
                    self._let(statement, env)
                case Assign():
                    self._assign(statement, env)
                case Run():
                    self._run(statement, env)
                case If():
                    self._if(statement, env)
                case Loop():
                    self.loop(statement, env)
        return None

    def _let(self, statement: Let, env: Env) -> None:
        if not statement.mutable:
            assert statement.value is not None
            held = self.value(statement.value, env, statement.kind)
            env[statement.name] = held
            self._call(held.local, statement.name)
            return
        value = statement.value or Literal(0, "int")
        kind = statement.kind or self.kind(value, env)
        held = self.value(value, env, kind)
        lanes = LANES if self._lane_depth is not None else 1
        variable_ = Mutable(kind, lanes, self.f.local(statement.name, type_code(kind, lanes)))
        self._push(held, lanes)
        self.f.set(variable_.local)
        env[statement.name] = variable_

    def _assign(self, statement: Assign, env: Env) -> None:
        if isinstance(statement.target, Element):
            self.store(statement.target, statement.value, env)
            return
        assert isinstance(statement.target, Name)
        target = env[statement.target.name]
        assert isinstance(target, Mutable), statement.target.name
        held = self.value(statement.value, env, target.kind)
        if held.lanes > target.lanes:
            raise Unvectorisable(f"`{statement.target.name}` is one for all lanes")
        self._push(held, target.lanes)
        self.f.set(target.local)

    def _run(self, statement: Run, env: Env) -> None:
        assert isinstance(statement.call, Call)
        self._inline(statement.call, env)

    def _if(self, statement: If, env: Env) -> None:
        condition = self.value(statement.condition, env)
        if condition.number is not None:
            self.run(statement.then if condition.number else statement.other, dict(env))
            return
        if condition.lanes > 1:
            raise Unvectorisable("a branch")
        bodies = []
        for part in (statement.then, statement.other):
            with self.scopes.inside(conditional=True) as scope:
                self.run(part, dict(env))
            bodies.append(scope.body)
        self._push(condition, 1)
        self.f.if_()
        self.f.code += bodies[0]
        if bodies[1]:
            self.f.else_()
            self.f.code += bodies[1]
        self.f.end()

    def _call(self, local: int, name: str) -> None:
        """Locals without a name of their own get that of the first variable they hold."""
        if local >= 0 and self.f.local_names[local] in UNNAMED:
            self.f.local_names[local] = name
