"""Checks the statements of a function: what it may do, and that it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from wgcc.kernel.own import fold
from wgcc.kernel.own.expressions import (
    ExpressionChecker,
    LocalName,
    Typed,
    WrongFunction,
    check_kind,
    check_name,
)
from wgcc.kernel.rewrite.transform import Body, assigned_in
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Expr,
    FunctionDef,
    If,
    Let,
    Loop,
    Name,
    Return,
    Run,
    Statement,
    statements_of,
)
from wgcc.kernel.types import default_kind

DEEPEST = 60
MOST_ROUNDS = 4096
FORM = "write `for (var i = 0; i < 20; i++)`, with numbers that are known beforehand"
COMPARED = ("<", "<=", ">", ">=")


class Checker(ExpressionChecker):
    """Checks functions of one file; `rounds` has how often each loop runs, by its `id`."""

    def __init__(
        self,
        functions: Mapping[str, FunctionDef],
        constants: Mapping[str, Typed],
        names: Mapping[str, str],
    ) -> None:
        super().__init__(functions, constants, names)
        self.rounds: dict[int, int] = {}
        self._counters: list[str] = []
        self._result = ""

    def function(self, function: FunctionDef) -> FunctionDef:
        check_name(function.name, function)
        for name, kind in function.params:
            check_name(name, function)
            check_kind(kind, function)
            if name in self.constants or name in self.functions:
                raise WrongFunction(f"`{name}` is already the name of something else", function)
        if function.result is None:
            text = f"`{function.name}` returns nothing"
            raise WrongFunction(text, function, help="add `-> f32`")
        check_kind(function.result, function)
        self._result = function.result
        own = {name: LocalName(kind, False) for name, kind in function.params}
        if len(own) < len(function.params):
            raise WrongFunction("two parameters have one name", function)
        self.scopes = [own]
        with self._block():
            body = tuple(self._statement(statement) for statement in function.body)
        if not _always_returns(function.body):
            text = f"`{function.name}` does not return in every case"
            raise WrongFunction(text, function, help="end it with a `return`")
        return replace(function, name=self.names[function.name], body=body)

    def number(self, expr: Expr) -> Typed:
        """A constant of the file."""
        typed = self.infer(expr)
        if fold.number_in(typed.expr) is None:
            raise WrongFunction("a `const` is a number that is known beforehand", expr)
        return typed

    @contextmanager
    def _block(self) -> Iterator[None]:
        self.scopes.append({})
        if len(self.scopes) > DEEPEST:
            raise WrongFunction(f"blocks are nested more than {DEEPEST} deep")
        yield
        self.scopes.pop()

    def _body(self, body: Body) -> Body:
        with self._block():
            return tuple(self._statement(statement) for statement in body)

    def _statement(self, statement: Statement) -> Statement:
        try:
            return self._any_statement(statement)
        except WrongFunction as problem:
            problem.nodes.append(statement)
            raise

    def _any_statement(self, statement: Statement) -> Statement:
        match statement:
            case Let():
                return self._let(statement)
            case Assign():
                return self._assign(statement)
            case If(condition, then, other):
                test = self._condition(condition)
                return replace(
                    statement, condition=test, then=self._body(then), other=self._body(other)
                )
            case Loop():
                return self._loop(statement)
            case Return(value):
                if value is None:
                    raise WrongFunction(f"this must return {self._result}", statement)
                return replace(statement, value=self.as_kind(value, self._result, "the result"))
            case Run():
                text = "the result of this call is not used, and a function has no other effect"
                raise WrongFunction(text, statement, help="remove it, or use its result")

    def _let(self, let: Let) -> Let:
        check_name(let.name, let)
        taken = let.name in self.constants or let.name in self.functions
        if taken or self.lookup(let.name) is not None:
            text = f"`{let.name}` is already the name of something else here"
            raise WrongFunction(text, let, help="choose another name")
        if let.kind is not None:
            check_kind(let.kind, let)
        if let.value is None:
            assert let.kind is not None
            self.scopes[-1][let.name] = LocalName(let.kind, True)
            return let
        typed = self.infer(let.value)
        kind = let.kind or default_kind(typed.kind)
        expr = self.convert(typed, kind, let.value, f"`{let.name}`")
        number = None if let.mutable else fold.number_in(expr)
        self.scopes[-1][let.name] = LocalName(kind, let.mutable, number)
        return replace(let, value=expr)

    def _assign(self, assign: Assign) -> Assign:
        target = assign.target
        if not isinstance(target, Name):
            raise WrongFunction("only variables can be assigned", assign)
        variable = self.lookup(target.name)
        if variable is None:
            raise WrongFunction(f"nothing is called `{target.name}`", assign)
        if not variable.is_mutable:
            text = f"`{target.name}` cannot be changed"
            raise WrongFunction(text, assign, help=f"declare another one: `var v = {target.name};`")
        if target.name in self._counters:
            text = f"`{target.name}` counts the rounds of a loop, and is changed only in its head"
            raise WrongFunction(text, assign)
        value = self.as_kind(assign.value, variable.kind, f"`{target.name}`")
        # `x += 1` is printed by its right operand, which must stay one.
        compound = assign.compound and isinstance(value, Binary)
        return replace(assign, value=value, compound=compound)

    def _condition(self, expr: Expr) -> Expr:
        return self.as_kind(expr, "bool", "a condition")

    def _loop(self, loop: Loop) -> Loop:
        """A loop whose rounds are known beforehand, and that runs to its end."""
        if any(isinstance(inner, Return) for inner in statements_of(loop.body)):
            text = "a `return` inside a loop is not supported"
            raise WrongFunction(
                text, loop, help="assign to a variable, and return it after the loop"
            )
        with self._block():
            match loop:
                case Loop((Let(name, mutable=True) as start,), condition, (Assign() as step,)):
                    pass
                case _:
                    text = "how often this loop runs is not known"
                    raise WrongFunction(text, loop, help=FORM)
            new_start = self._let(start)
            onward = self._assign(step)
            test = self._condition(condition)
            rounds = self._rounds(new_start, test, onward, loop)
            if name in assigned_in(loop.body):
                text = f"`{name}` counts the rounds, and is changed only in the head of the loop"
                raise WrongFunction(text, loop)
            self._counters.append(name)
            body = self._body(loop.body)
            self._counters.pop()
        checked = replace(loop, before=(new_start,), condition=test, after=(onward,), body=body)
        self.rounds[id(checked)] = rounds
        return checked

    def _rounds(self, start: Let, test: Expr, onward: Assign, loop: Loop) -> int:
        """How often a loop runs."""
        match test, onward.value:
            case Binary(op, Name(tested), end), Binary(sign, Name(changed), step):
                pass
            case _:
                raise WrongFunction("how often this loop runs is not known", loop, help=FORM)
        first = None if start.value is None else fold.number_in(start.value)
        last, by = self.number_of(end), self.number_of(step)
        is_known = start.value is None or first is not None
        is_counter = tested == changed == start.name and sign in ("+", "-")
        if not is_known or last is None or by is None or not is_counter or op not in COMPARED:
            raise WrongFunction("how often this loop runs is not known", loop, help=FORM)
        value, rounds = first or 0, 0
        while fold.binary(op, value, last, "int"):
            rounds += 1
            value = value + by if sign == "+" else value - by
            if rounds > MOST_ROUNDS:
                text = f"this loop runs more than {MOST_ROUNDS:,} times"
                raise WrongFunction(text, loop, help=FORM)
        kind = self.scopes[-1][start.name].kind
        if kind in fold.RANGES:
            # The counter must not wrap around.
            fold.settle(value, kind)
        return rounds


def _always_returns(body: Body) -> bool:
    if not body:
        return False
    for statement in body[:-1]:
        if _always_returns((statement,)):
            raise WrongFunction("nothing runs after this, because it returns", statement)
    match body[-1]:
        case Return():
            return True
        case If(_, then, other):
            # Both, so that what follows a return is refused in either.
            ends = [_always_returns(then), _always_returns(other)]
            return all(ends)
        case Loop(body=inner):
            _always_returns(inner)
    return False
