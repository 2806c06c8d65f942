"""Reductions by subgroup operations, for devices that have them.

Lanes of a workgroup combine what they found by halves, with a barrier for each half:

    for (var half = LANES / 2u; half > 0u; half /= 2u) {
      workgroupBarrier();
      if (lane < half) {
        shared_sum[lane] = (shared_sum[lane] + shared_sum[lane + half]);
      }
    }
    workgroupBarrier();
    sum = shared_sum[0];

Here that becomes one barrier, after which every subgroup computes the result for itself: halves
that are larger than a block of its invocations from workgroup memory, the others by shuffles. The
same pairs are combined in the same order, so the bits of results are the same. Nothing is assumed
about which lanes are in a subgroup; where some of its invocations are missing, each of the others
computes all from workgroup memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wgcc.kernel.parse import parse_expression, parse_module, parse_statements
from wgcc.kernel.rewrite.transform import Body, fill, map_expression, map_functions, map_statements
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Declaration,
    Element,
    Enable,
    Expr,
    FunctionDef,
    If,
    Let,
    Literal,
    Loop,
    Module,
    Name,
    Run,
    Statement,
    statements_of,
)

# Blocks of invocations of a subgroup for which loads are written out; blocks of 8 and 4 use a loop.
UNROLLED = (32, 16)
# Lanes of workgroups that reduce.
LANES = (64, 128, 256)
HALVES = (16, 8, 4, 2, 1)
_BUILTINS = (("wg_id", "@subgroup_invocation_id"), ("wg_size", "@subgroup_size"))
_BLOCK = """
var<private> wg_block: u32;
var<private> wg_member: u32;
var<private> wg_first: u32;

// Blocks of 32 or fewer invocations of a subgroup; of 1, unless all of them are there.
fn wg_find_block(id: u32, size: u32) {
  let block = min(size, 32u);
  wg_member = id % block;
  wg_first = id - wg_member;
  let mask = (0xffffffffu >> (32u - block)) << (wg_first % 32u);
  let whole = (subgroupBallot(true)[id / 32u] & mask) == mask;
  wg_block = select(1u, block, subgroupAll(whole && block >= 4u));
}
"""
_REDUCE = """
fn PAIR(a: KIND, b: KIND) -> KIND {
  return TOGETHER;
}

// Every `step`-th element, by halves.
fn SOME(first: u32, step: u32) -> KIND {
  var stack: array<KIND, 9>;
  var depth = 0u;
  let count = COUNT / step;
  for (var i = 0u; i < count; i++) {
    var x = ARRAY[first + step * (reverseBits(i) >> (countLeadingZeros(count) + 1u))];
    for (var ones = i; ones % 2u == 1u; ones /= 2u) {
      depth--;
      x = PAIR(stack[depth], x);
    }
    stack[depth] = x;
    depth++;
  }
  return stack[0];
}

// All invocations shuffle, if they need it or not: shuffles must be in uniform control flow.
fn RESULT(own: u32) -> KIND {
  var x: KIND;
  var y: KIND;
  LOAD();
  SHUFFLE();
  y = KIND(subgroupShuffle(NUMBER(x), wg_first + own));
  return select(x, y, wg_block > END);
}
"""


@dataclass(frozen=True, slots=True)
class _Reduction:
    """Reduces what `lanes` have stored in an array to its first `end` elements.

    `together` combines `a` and `b`, elements of type `kind`.
    """

    array: str
    kind: str
    together: Expr
    lanes: int
    end: int

    @property
    def result(self) -> str:
        return f"wg_{self.array}"


def with_subgroups(module: Module, unrolled: Sequence[int] = UNROLLED) -> Module | None:
    """The kernel with reductions by subgroup operations; None if it has none that are known."""
    reductions = _reductions(module)
    if not reductions:
        return None
    results = {reduction.array: reduction.result for reduction in reductions}
    declarations: list[Declaration] = [Enable("subgroups")]
    for declared in map_functions(module, lambda body: _without_trees(body, results)).declarations:
        if isinstance(declared, FunctionDef) and declared.name == "main":
            start = parse_statements("wg_find_block(wg_id, wg_size);")
            params, body = (*_BUILTINS, *declared.params), (*start, *declared.body)
            declared = replace(declared, params=params, body=body)
        declarations.append(declared)
    declarations += parse_module(_BLOCK).declarations
    for reduction in reductions:
        declarations += _functions(reduction, [n for n in unrolled if n > reduction.end])
    return Module(tuple(declarations))


def _reductions(module: Module) -> list[_Reduction]:
    """The reductions of a kernel; an empty list if one differs from what the compiler writes."""
    reductions: list[_Reduction] = []
    for function in module.functions.values():
        for statement in statements_of(function.body):
            tree = _tree(statement)
            if tree is None:
                continue
            lanes, end, steps = tree
            for array, together in steps:
                variable = module.variables.get(array)
                prefix, suffix = "array<", f", {lanes}>"
                if variable is None or not variable.kind.endswith(suffix):
                    return []
                kind = variable.kind.removeprefix(prefix).removesuffix(suffix)
                sizes = module.whole(lanes), module.whole(end) or 1
                reductions.append(_Reduction(array, kind, together, *sizes))
    is_known = all(one.lanes in LANES for one in reductions) and "main" in module.functions
    return (
        reductions if is_known and len({one.array for one in reductions}) == len(reductions) else []
    )


def _tree(statement: Statement) -> tuple[str, str, list[tuple[str, Expr]]] | None:
    """(constant of lanes, constant of the end, (array, what `a` and `b` are together) …)."""
    match statement:
        case Loop(
            (Let("half", _, Binary("/", Name(lanes), Literal(2)), True),),
            Binary(">" | ">=", Name("half"), end),
            (Assign(Name("half"), Binary("/", Name("half"), Literal(2))),),
            (Run(Call("workgroupBarrier")), If(Binary("<", Name("lane"), Name("half")), then, ())),
        ):
            steps = [_step(inner) for inner in then]
            known = [step for step in steps if step is not None]
            return (lanes, end.name if isinstance(end, Name) else "", known)
    return None


def _step(statement: Statement) -> tuple[str, Expr] | None:
    match statement:
        case Assign(Element(Name(array), Name("lane")) as mine, value):
            other = parse_expression(f"{array}[lane + half]")
            pairs = {mine: Name("a"), other: Name("b")}
            return array, map_expression(value, lambda expr: pairs.get(expr, expr))
    return None


def _without_trees(body: Body, results: dict[str, str]) -> Body:
    """Removes the loops over halves; calls of functions replace elements of their arrays."""

    def change(statement: Statement) -> Body:
        if _tree(statement) is not None:
            return ()
        match statement:
            case (
                Let(value=Element(Name(array), Name() | Literal() as own))
                | Assign(value=Element(Name(array), Name() | Literal() as own))
            ) if array in results:
                return (replace(statement, value=Call(results[array], (own,))),)
        return (statement,)

    return map_statements(body, change)


def _functions(reduction: _Reduction, blocks: Sequence[int]) -> tuple[Declaration, ...]:
    name, kind = reduction.result, reduction.kind
    return fill(
        parse_module(_REDUCE),
        {
            "PAIR": f"{name}_pair",
            "SOME": f"{name}_some",
            "RESULT": name,
            "KIND": kind,
            # Shuffles take numbers only.
            "NUMBER": "u32" if kind == "bool" else kind,
            "TOGETHER": reduction.together,
            "COUNT": reduction.lanes,
            "END": reduction.end,
            "ARRAY": reduction.array,
            "LOAD": _load(reduction, blocks),
            "SHUFFLE": tuple(_shuffles(reduction)),
        },
    ).declarations


def _load(reduction: _Reduction, blocks: Sequence[int]) -> Body:
    """Sets `x` to what an invocation's elements are together."""
    end, name = reduction.end, reduction.result
    first, step = f"select(own, wg_member, wg_block > {end}u)", f"max(wg_block, {end}u)"
    load: Body = parse_statements(f"x = {name}_some({first}, {step});")
    for block in reversed(blocks):
        is_block = Binary("==", Name("wg_block"), Literal(block, "u32"))
        load = (If(is_block, (Assign(Name("x"), _elements(reduction, 0, block)),), load),)
    return load


def _shuffles(reduction: _Reduction) -> Iterator[Statement]:
    kind, number = reduction.kind, "u32" if reduction.kind == "bool" else reduction.kind
    for half in HALVES:
        if half >= reduction.end:
            yield from parse_statements(
                f"y = {kind}(subgroupShuffleXor({number}(x), {half}u));\n"
                f"if (wg_block > {half}u) {{ x = {reduction.result}_pair(x, y); }}"
            )


def _elements(reduction: _Reduction, at: int, half: int) -> Expr:
    """Combines the elements of an invocation, from number `at` on."""
    if half == reduction.lanes:
        return parse_expression(f"{reduction.array}[wg_member + {at}u]")
    sides = (_elements(reduction, place, 2 * half) for place in (at, at + half))
    return Call(f"{reduction.result}_pair", tuple(sides))
