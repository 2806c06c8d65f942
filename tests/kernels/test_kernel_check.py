"""The checker of kernels: what it proves is so, and what it refuses is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kernel_threads import Number, Thread, TooLong, elements_of
from random_kernels import RandomKernel
from wgcc.backends.wgsl.print_tree import print_expression
from wgcc.bundle.check_kernel import check_kernel
from wgcc.bundle.plan import Plan
from wgcc.kernel.check import IndexClaim, check
from wgcc.kernel.parse import parse_module
from wgcc.kernel.rewrite.transform import (
    Body,
    ChangeExpr,
    map_functions,
    map_statements,
    with_bodies,
    with_children,
    with_expressions,
)
from wgcc.kernel.tokenize import WgslError
from wgcc.kernel.tree import (
    Binary,
    Call,
    Element,
    Expr,
    If,
    Literal,
    Module,
    Name,
    Run,
    Statement,
    statements_of,
)

GOLDEN = Path(__file__).parents[1] / "golden"
# Of all indices of the golden kernels, at least so many of 1,000 are proven; the others say why.
PROVEN = 960
LANES, GROUPS = 6, 2


def golden_kernels() -> Iterator[tuple[Path, Module, Plan]]:
    for folder in sorted(path for path in GOLDEN.iterdir() if path.is_dir()):
        plan = json.loads((folder / "plan.json").read_text())
        for path in sorted(folder.glob("*/*.wgsl")):
            yield path, parse_module(path.read_text()), plan


def test_golden_kernels_are_right_and_nearly_all_indices_are_proven():
    proven, report = 0, []
    for path, module, plan in golden_kernels():
        result = check_kernel(plan, path.stem, module)
        assert not result.problems, (path, result.problems)
        proven += len(result.indices) - len(result.unproven)
        for index in result.unproven:
            text = f"{index.array}[{print_expression(index.index)}]"
            report.append(f"{path.parent.parent.name}/{path.name}: {text}: {index.reason}")
    share = 1000 * proven / (proven + len(report))
    print(f"{proven} of {proven + len(report)} indices are proven", *report, sep="\n")
    assert share >= PROVEN, "\n".join(report)


def test_an_index_that_is_moved_out_of_range_is_never_proven():
    count = 0
    for path, module, plan in golden_kernels():
        lengths = {
            id(index.index): index.length
            for index in check_kernel(plan, path.stem, module).indices
            if index.is_proven
        }
        # Every third, to save time.
        for number in range(0, len(lengths), 3):
            moved, original = _with_moved_index(module, lengths, number)
            result = check_kernel(plan, path.stem, moved)
            worst = [index for index in result.indices if index.index == original]
            assert worst and not all(index.is_proven for index in worst), (path, original)
            count += 1
    assert count > 300


def _with_moved_index(module: Module, lengths: dict[int, int], number: int) -> tuple[Module, Expr]:
    """The index with this number is as much larger as its array is long."""
    wanted = list(lengths)[number]
    found: list[Expr] = []

    def move(expr: Expr) -> Expr:
        inner = with_children(expr, move)
        if isinstance(expr, Element) and id(expr.index) == wanted and isinstance(inner, Element):
            index = Binary("+", inner.index, Literal(lengths[wanted], "int"))
            found.append(index)
            return Element(inner.whole, index)
        return inner

    moved = map_functions(module, lambda body: _each(body, move))
    return moved, found[0]


def _each(body: Body, move: ChangeExpr) -> Body:
    return tuple(
        with_expressions(with_bodies(statement, lambda inner: _each(inner, move)), move)
        for statement in body
    )


def test_a_barrier_that_not_all_threads_reach_is_refused():
    lane = ("lane_of_test", "@local_invocation_index")
    count = 0
    for path, module, plan in golden_kernels():
        barriers = [s for s in statements_of(module.functions["main"].body) if _is_barrier(s)]
        for barrier in barriers:

            def hide(statement: Statement, barrier: Statement = barrier) -> tuple[Statement, ...]:
                test = Binary("<", Name(lane[0]), Literal(1, "u32"))
                return (If(test, (statement,)),) if statement is barrier else (statement,)

            main = module.functions["main"]
            body = map_statements(main.body, hide)
            changed = replace(main, body=body, params=(*main.params, lane))
            declared = tuple(changed if d is main else d for d in module.declarations)
            result = check_kernel(plan, path.stem, Module(declared))
            assert any("not in uniform control flow" in text for text in result.problems), path
            count += 1
    assert count > 50


def _is_barrier(statement: Statement) -> bool:
    return isinstance(statement, Run) and statement.call == Call("workgroupBarrier", ())


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_kernels_do_what_was_proven(first: int):
    """Every thread of every workgroup is run; indices are compared with the claimed intervals."""
    proven = 0
    for seed in range(first, first + 50):
        kernel = RandomKernel(seed, LANES)
        module = parse_module(kernel.text)
        result = check(module, (GROUPS, 1, 1))
        typed = [p for p in result.problems if "uniform control flow" not in p]
        assert not typed, (seed, typed, kernel.text)
        claims = {id(index.index): index for index in result.indices}
        proven += sum(index.is_proven for index in result.indices)
        for group in range(GROUPS):
            _run_group(kernel, module, group, claims, is_right=not result.problems)
    assert proven > 50


def _run_group(
    kernel: RandomKernel, module: Module, group: int, claims: dict[int, IndexClaim], is_right: bool
) -> None:
    random = Random(group)
    memory = {name: [random.randrange(50) for _ in range(n)] for name, n in kernel.lengths.items()}
    barriers, is_cut = [], False
    by_place = {id(e): e for e in elements_of(module)}
    for lane in range(LANES):
        builtins = {
            "@workgroup_id": {"x": Number(group, "u32")},
            "@local_invocation_index": Number(lane, "u32"),
        }
        thread = Thread(module, builtins, memory)
        try:
            thread.run()
        except TooLong:
            is_cut = True
        barriers.append(thread.trace.barriers)
        for place, indices in thread.trace.indices.items():
            claim = claims[id(by_place[place].index)]
            low, high = claim.range.low, claim.range.high
            assert low <= min(indices) and max(indices) <= high, (kernel.text, claim)
            assert not claim.is_proven or max(indices) < claim.length, (kernel.text, claim)
    if is_right and not is_cut:
        assert all(trace == barriers[0] for trace in barriers), kernel.text


def problems(body: str, head: str = "") -> tuple[str, ...]:
    kernel = f"""
{head}
@group(0) @binding(0) var<storage, read> x0: array<f32, 8>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 8>;
@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {{
  {body}
}}
"""
    return check(parse_module(kernel), (1, 1, 1)).problems


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y0[lane] = x0[lane] + lane;", "main: f32 and u32 do not go together"),
        ("y0[lane] = lane;", "main: u32 is assigned to f32"),
        ("x0[lane] = 1.0;", "main: `x0` cannot be assigned"),
        ("let a = 1u; a = 2u;", "main: `a` is no variable"),
        ("if (lane) { y0[0] = 1.0; }", "main: a condition is u32"),
        ("y0[x0[0]] = 1.0;", "main: an index is f32"),
        ("y0[0] = nothing;", "main: `nothing` is not declared"),
        ("y0[0] = exp(lane);", "main: exp of u32"),
        ("y0[0] = unheard(1.0);", "main: `unheard` is not known"),
        ("y0[0] = id.w;", "main: vec3<u32> has no `w`"),
        ("let a = vec4f(1.0, 2.0);", "main: vec4<f32> of float, float"),
        ("let a: i32 = lane;", "main: u32 where i32 is wanted"),
        ("let a = lane << 1i;", "main: u32 << i32"),
    ],
)
def test_wrong_types_are_problems(body: str, message: str):
    assert message in problems(body)


@pytest.mark.parametrize(
    "body",
    [
        "if (lane < 4u) { workgroupBarrier(); }",
        "if (lane < 4u) { return; } workgroupBarrier();",
        "for (var i = lane; i < 8u; i++) { workgroupBarrier(); }",
        "for (var i = 0u; i < 8u; i++) { workgroupBarrier(); if (i == lane) { return; } }",
        "var n = 1u; if (lane == 0u) { n = 2u; } if (n == 1u) { workgroupBarrier(); }",
        "var n = 1u; for (var i = 0u; i < lane; i++) { n++; } if (n == 1u) { workgroupBarrier(); }",
        "if (y0[0] > 0.0) { workgroupBarrier(); }",
        "if (x0[lane] > 0.0) { workgroupBarrier(); }",
        "if (other(lane) > 0u) { workgroupBarrier(); }",
        "if (lane == 0u) { inner(); }",
    ],
)
def test_barriers_that_threads_may_miss_are_problems(body: str):
    head = "fn other(a: u32) -> u32 { return a; } fn inner() { workgroupBarrier(); }"
    assert any(
        "`workgroupBarrier` is not in uniform control flow" in p for p in problems(body, head)
    )


@pytest.mark.parametrize(
    "body",
    [
        "if (id.x < 4u) { workgroupBarrier(); }",
        "if (id.x > 3u) { return; } workgroupBarrier();",
        "if (x0[id.x] > 0.0) { workgroupBarrier(); }",
        "for (var i = 0u; i < 8u; i++) { if (lane < i) { y0[i] = 1.0; } workgroupBarrier(); }",
        "if (early(lane) > 0u) { y0[0] = 1.0; } workgroupBarrier();",
    ],
)
def test_barriers_that_all_threads_reach_are_right(body: str):
    head = "fn early(a: u32) -> u32 { if (a > 2u) { return 1u; } return 0u; }"
    assert problems(body, head) == ()


def test_limits_of_webgpu_are_kept():
    large = "var<workgroup> a: array<vec4f, 1025>; @compute @workgroup_size(SIZE, 2) fn main() { }"
    assert check(parse_module(f"const SIZE = 129u; {large}"), (65_536, 1, 1)).problems == (
        "258 threads in a workgroup",
        "65536 workgroups along an axis",
        "16400 bytes of workgroup memory",
    )


def test_all_types_have_a_size_in_workgroup_memory():
    kinds = ("bool", "f16", "vec3<f32>", "array<vec2<u32>, 4>", "atomic<u32>", "Pair")
    variables = "".join(f"var<workgroup> a{i}: {kind};" for i, kind in enumerate(kinds))
    kernel = (
        f"struct Pair {{ a: u32, b: f32 }} {variables} @compute @workgroup_size(1) fn main() {{ }}"
    )
    assert check(parse_module(kernel)).problems == ()


def test_a_product_that_is_large_enough_has_large_factors():
    kernel = """
@group(0) @binding(0) var<storage, read_write> y0: array<u32, 32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) k: u32) {
  if (k * 4u + 1u >= 128u) { y0[k - 32u] = k; }
  if (3u * k < 96u) { y0[k] = k; }
  if (k * 4u + 5u >= 128u) { y0[k - 32u] = k; }
}
"""
    assert [i.is_proven for i in check(parse_module(kernel)).indices] == [True, True, False]


def test_functions_are_typed():
    assert "f returns f32 as u32" in "".join(
        problems("let a = f(1.0);", "fn f(a: f32) -> u32 { return a; }")
    )


@pytest.mark.parametrize("seed", range(4))
def test_kernels_that_somebody_edited_badly_are_refused_or_checked(seed: int) -> None:
    """Whatever a file holds, the checker reports or refuses it: it never fails in another way."""
    random = Random(seed)
    files = sorted(GOLDEN.glob("*/kernels/*.wgsl"))
    outcomes = {edited_outcome(random.choice(files), random) for _ in range(60)}
    assert outcomes == {"checked", "refused"}


def edited_outcome(path: Path, random: Random) -> str:
    """What becomes of a kernel in which one token is deleted, replaced or repeated."""
    words = re.findall(r"\s+|\w+|[^\w\s]", path.read_text(encoding="utf-8"))
    at, other = random.randrange(len(words)), random.choice(words)
    words[at : at + random.randrange(2)] = random.choice([[], [other]])
    plan = json.loads((path.parents[1] / "plan.json").read_text(encoding="utf-8"))
    try:
        check_kernel(plan, path.stem, parse_module("".join(words)))
    except WgslError:
        return "refused"
    return "checked"


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(WgslError, match="no function `main`"):
        check(parse_module(""))
