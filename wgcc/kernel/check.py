"""Checks a kernel: types, barriers, indices, and the limits that every WebGPU device grants.

All of it is read off the tree, for all threads of a grid at once (`abstract.py`). A kernel is right
if it has no `problems`; each index is proven to be in range, or says why not. What is not proven is
not wrong: WGSL clamps it, at a cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from wgcc.kernel.abstract import AbstractValue, Evaluation, Findings, IndexClaim, LocalVariable
from wgcc.kernel.facts import Knowledge
from wgcc.kernel.limits import MAX_GRID, MAX_STORAGE, Grid, check_limits
from wgcc.kernel.loop_counters import counter_of, ends
from wgcc.kernel.ranges import Range, single
from wgcc.kernel.rewrite.transform import assigned_in
from wgcc.kernel.tokenize import WgslError
from wgcc.kernel.tree import (
    Assign,
    Call,
    Expr,
    FunctionDef,
    If,
    Let,
    Loop,
    Module,
    Name,
    Return,
    Run,
    Statement,
    expressions_of,
    parts_of,
    root_of,
    statements_of,
)
from wgcc.kernel.types import fits

Body = tuple[Statement, ...]
# Subgroups have 4 to 128 threads.
MAX_SUBGROUP = 128
# Kernels of real models take a few thousand statements; calls that call calls could take for ever.
MAX_STATEMENTS = 100_000


@dataclass(frozen=True, slots=True)
class KernelReport:
    """`endless`: functions with a loop that is not proven to end."""

    problems: tuple[str, ...]
    indices: tuple[IndexClaim, ...]
    endless: tuple[str, ...] = ()

    @property
    def unproven(self) -> tuple[IndexClaim, ...]:
        return tuple(index for index in self.indices if not index.is_proven)


def check(
    module: Module,
    grid: Grid = (MAX_GRID, MAX_GRID, MAX_GRID),
    counters: Mapping[str, int] | None = None,
    max_storage: int = MAX_STORAGE,
) -> KernelReport:
    """`grid`: the most workgroups it is started with. `counters`: uniforms that count rounds."""
    if "main" not in module.functions:
        raise WgslError("there is no function `main`")
    findings = Findings()
    evaluation = Evaluation(module, findings, counters or {})
    checker = _Checker(evaluation)
    size = checker.workgroup()
    check_limits(evaluation, grid, size, max_storage)
    checker.main(grid, size)
    claims = tuple(findings.indices.values())
    return KernelReport(tuple(findings.problems), claims, tuple(findings.endless))


class _Checker:
    """Runs statements; `_e` is the state where they have come."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._e = evaluation
        self._e.call = self._function
        self._module = evaluation.module
        self._returned: list[AbstractValue] = []
        self._left = MAX_STATEMENTS

    def workgroup(self) -> Grid:
        sizes = [self._e.value(size).expr for size in self._module.workgroup]
        known = [self._e.facts.range(e).high for e in sizes if e is not None]
        if not 0 < len(known) == len(sizes) <= 3:
            raise WgslError("the size of its workgroups is not known")
        x, y, z = (*known, 1, 1)[:3]
        return x, y, z

    def main(self, grid: Grid, size: Grid) -> None:
        function = self._module.functions["main"]
        args = [self._built_in(kind.removeprefix("@"), grid, size) for _, kind in function.params]
        kinds = {v.name: v.kind for v in self._module.variables.values() if v.space == "private"}
        private = {
            name: LocalVariable(self._zero(name, kind), True) for name, kind in kinds.items()
        }
        self._e.scopes = [private]
        self._function(function, args)

    def _zero(self, name: str, kind: str) -> AbstractValue:
        kind = self._e.long(kind)
        return self._e.opaque(kind, name, True, single(0) if kind in ("u32", "i32") else None)

    def _built_in(self, name: str, grid: Grid, size: Grid) -> AbstractValue:
        sizes = {
            "local_invocation_index": (prod(size),),
            "subgroup_size": (MAX_SUBGROUP + 1,),
            "subgroup_invocation_id": (MAX_SUBGROUP,),
            "workgroup_id": grid,
            "num_workgroups": tuple(n + 1 for n in grid),
            "local_invocation_id": size,
            "global_invocation_id": tuple(n * s for n, s in zip(grid, size, strict=True)),
        }
        if name not in sizes:
            raise WgslError(f"`{name}` is no value that a thread is given")
        is_uniform = name in ("workgroup_id", "num_workgroups")
        parts = tuple(self._e.opaque("u32", name, is_uniform, Range(0, n - 1)) for n in sizes[name])
        return parts[0] if len(parts) == 1 else AbstractValue("vec3<u32>", is_uniform, parts=parts)

    def _function(self, function: FunctionDef, args: list[AbstractValue]) -> AbstractValue:
        e = self._e
        outer = e.scopes, e.function, e.facts, e.is_together, self._returned
        e.function, self._returned = function.name, []
        params = zip(function.params, args, strict=False)
        own = {
            name: LocalVariable(self._bind(name, arg, kind), False) for (name, kind), arg in params
        }
        e.scopes = [*e.scopes[:1], own]
        self._block(function.body)
        if len(self._returned) > 1 or _returns(function.body[:-1]):
            # Where a function has several ends, what it assigned is not the same at each.
            for name in self._private_writes(function.body):
                self._forget(name, False)
        private, returned, is_together = e.scopes[0], self._returned, e.is_together
        e.scopes, e.function, e.facts, e.is_together, self._returned = outer
        e.scopes[0] = private
        if function.result is None:
            return AbstractValue("", True)
        kind = e.long(function.result)
        for value in returned:
            if not fits(kind, e.long(value.kind)):
                e.fail(f"{function.name} returns {value.kind} as {kind}")
        if len(returned) == 1:
            return e.settle(returned[0], kind)
        is_uniform = is_together and all(value.is_uniform for value in returned)
        known = _hull([e.facts.range(v.expr) for v in returned if v.expr is not None])
        return e.opaque(kind, function.name, is_uniform, known if kind in ("u32", "i32") else None)

    def _bind(self, name: str, value: AbstractValue, kind: str | None) -> AbstractValue:
        """Gives a value a symbol of its own, so that expressions stay small."""
        if kind is not None and kind.startswith("@"):
            return value
        value = self._e.settle(value, kind)
        if value.expr is None:
            return value
        expr = self._e.facts.define(name, value.kind, value.expr)
        return AbstractValue(value.kind, value.is_uniform, expr)

    def _block(self, body: Body) -> None:
        self._left -= 1 + len(body)
        if self._left < 0:
            raise WgslError(f"checking it takes more than {MAX_STATEMENTS:,} statements")
        self._e.scopes.append({})
        for statement in body:
            self._statement(statement)
        self._e.scopes.pop()

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Let():
                self._let(statement)
            case Assign(target, value):
                self._assign(target, self._e.value(value))
            case If():
                self._if(statement)
            case Loop():
                self._loop(statement)
            case Return(value):
                if value is not None:
                    returned = self._e.value(value)
                    is_uniform = returned.is_uniform and self._e.is_together
                    self._returned.append(
                        AbstractValue(returned.kind, is_uniform, returned.expr, returned.parts)
                    )
            case Run(call):
                self._e.value(call)

    def _let(self, let: Let) -> None:
        if let.value is None:
            assert let.kind is not None
            value = self._zero(let.name, let.kind)
        else:
            value = self._bind(let.name, self._e.value(let.value), let.kind)
        self._e.scopes[-1][let.name] = LocalVariable(value, let.mutable)

    def _assign(self, target: Expr, value: AbstractValue) -> None:
        if target == Name("_"):
            return
        root = root_of(target)
        assert isinstance(root, Name)
        place = self._e.place(target)
        if not fits(self._e.long(place.kind), self._e.long(value.kind)):
            self._e.fail(f"{value.kind} is assigned to {place.kind}")
        variable = self._e.lookup(root.name)
        if variable is None:
            memory = self._module.variables.get(root.name)
            if memory is None or memory.access == "read" or memory.space == "uniform":
                self._e.fail(f"`{root.name}` cannot be assigned")
        elif not variable.is_mutable:
            self._e.fail(f"`{root.name}` is no variable")
        elif isinstance(target, Name):
            variable.value = self._bind(root.name, value, variable.value.kind)
        else:
            is_uniform = variable.value.is_uniform and value.is_uniform and place.is_uniform
            variable.value = self._e.opaque(variable.value.kind, root.name, is_uniform)

    def _if(self, statement: If) -> None:
        e = self._e
        condition = self._condition(statement.condition)
        before, together, facts = e.scopes, e.is_together, e.facts
        ends = []
        for body, truth in ((statement.then, True), (statement.other, False)):
            e.scopes = _copy(before)
            e.facts = facts.assume(condition.expr, truth) if condition.expr is not None else facts
            e.is_together = together and condition.is_uniform
            self._block(body)
            ends.append((e.scopes, e.facts, e.is_together, _leaves(body)))
        self._join(before, ends, condition, facts)
        e.is_together = together and (
            not _returns((statement,)) or (condition.is_uniform and ends[0][2] and ends[1][2])
        )

    def _join(
        self,
        before: list[dict[str, LocalVariable]],
        ends: list[tuple[list[dict[str, LocalVariable]], Knowledge, bool, bool]],
        condition: AbstractValue,
        facts: Knowledge,
    ) -> None:
        """Keeps what holds after both branches; after one of them, if the other returns."""
        open_ends = [end for end in ends if not end[3]] or ends
        if len(open_ends) == 1:
            scopes, self._e.facts = open_ends[0][:2]
        else:
            scopes, self._e.facts = before, facts
        self._e.scopes = scopes
        for level, scope in enumerate(scopes):
            for name, variable in scope.items():
                values = [end[0][level][name].value for end in open_ends]
                if any(value is not values[0] for value in values[1:]):
                    ranges = [end[1] for end in open_ends]
                    variable.value = self._either(name, values, ranges, condition.is_uniform)
                else:
                    variable.value = values[0]

    def _either(
        self, name: str, values: list[AbstractValue], facts: list[Knowledge], uniform: bool
    ) -> AbstractValue:
        known = None
        if all(value.expr is not None and value.kind in ("u32", "i32") for value in values):
            known = _hull([f.range(v.expr) for f, v in zip(facts, values, strict=True) if v.expr])
        is_uniform = uniform and all(value.is_uniform for value in values)
        return self._e.opaque(values[0].kind, name, is_uniform, known)

    def _condition(self, expr: Expr) -> AbstractValue:
        condition = self._e.value(expr)
        if condition.kind != "bool":
            self._e.fail(f"a condition is {condition.kind}")
        return condition

    def _loop(self, loop: Loop) -> None:
        """Checks a loop again until nothing new turns out to differ among threads."""
        e = self._e
        e.scopes.append({})
        for statement in loop.before:
            self._statement(statement)
        names = {n for n in assigned_in((loop,)) if e.lookup(n) is not None}
        names |= self._private_writes((loop,))
        first, facts, together = _copy(e.scopes), e.facts, e.is_together
        uniform = {name: self._uniform(name) for name in names}
        is_together = together
        while True:
            e.scopes, e.facts, e.is_together = _copy(first), facts, is_together
            condition = self._enter(loop, uniform)
            e.is_together = e.is_together and condition.is_uniform
            inside = e.is_together
            self._block(loop.body)
            for statement in loop.after:
                self._statement(statement)
            after = {name: uniform[name] and self._uniform(name) for name in names}
            leaves = inside and not e.is_together
            if after == uniform and not (leaves and is_together):
                break
            uniform, is_together = after, is_together and not leaves
        e.scopes, e.facts = first, facts
        for name in names:
            self._forget(name, uniform[name] and condition.is_uniform)
        is_split = _returns(loop.body) and not (condition.is_uniform and is_together)
        e.is_together = together and not is_split
        e.scopes.pop()

    def _private_writes(self, body: Body) -> set[str]:
        """The private variables that statements assign, or the functions that they call."""
        written, waiting, seen = set[str](), [body], set[str]()
        while waiting:
            block = waiting.pop()
            written |= assigned_in(block)
            called = _calls_in(block) & set(self._module.functions) - seen
            waiting += [self._module.functions[name].body for name in called]
            seen |= called
        return written & set(self._e.scopes[0])

    def _uniform(self, name: str) -> bool:
        variable = self._e.lookup(name)
        return variable is not None and variable.value.is_uniform

    def _forget(self, name: str, is_uniform: bool, known: Range | None = None) -> None:
        variable = self._e.lookup(name)
        assert variable is not None
        variable.value = self._e.opaque(variable.value.kind, name, is_uniform, known)

    def _enter(self, loop: Loop, uniform: Mapping[str, bool]) -> AbstractValue:
        """Into any iteration: of what the loop assigns, only counters are known."""
        starts = {name: self._e.lookup(name) for name in uniform}
        values = {name: start.value for name, start in starts.items() if start is not None}
        for name, is_uniform in uniform.items():
            self._forget(name, is_uniform)
        facts = self._e.facts
        condition = self._condition(loop.condition)
        if condition.expr is not None:
            self._e.facts = facts.assume(condition.expr, True)
        counter = counter_of(self._e, loop, values)
        if not ends(self._e, loop, values):
            self._e.findings.endless[self._e.function] = None
        if counter is None:
            return condition
        self._e.facts = facts
        self._forget(counter[0], uniform[counter[0]], counter[1])
        condition = self._condition(loop.condition)
        if condition.expr is not None:
            self._e.facts = facts.assume(condition.expr, True)
        return condition


def _copy(scopes: list[dict[str, LocalVariable]]) -> list[dict[str, LocalVariable]]:
    return [{n: LocalVariable(v.value, v.is_mutable) for n, v in scope.items()} for scope in scopes]


def _hull(ranges: list[Range]) -> Range | None:
    if not ranges:
        return None
    return Range(min(r.low for r in ranges), max(r.high for r in ranges))


def _returns(body: Body) -> bool:
    return any(isinstance(statement, Return) for statement in statements_of(body))


def _leaves(body: Body) -> bool:
    return bool(body) and isinstance(body[-1], Return)


def _calls_in(body: Body) -> set[str]:
    exprs = (expr for statement in statements_of(body) for expr in expressions_of(statement))
    return {part.name for expr in exprs for part in parts_of(expr) if isinstance(part, Call)}
