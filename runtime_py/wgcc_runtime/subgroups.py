"""Reductions by subgroup operations, on devices that have them.

Lanes of a workgroup combine what they found by halves, and kernels of a bundle say so in one form,
which needs a barrier for each half:

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
computes all from workgroup memory. Mirrored by runtime_js/inspect/subgroups.js.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Blocks of invocations of a subgroup for which loads are written out; blocks of 8 and 4 use a loop.
UNROLLED: Final = (32, 16)
# Lanes of workgroups that reduce.
LANES: Final = (64, 128, 256)
HALVES: Final = (16, 8, 4, 2, 1)
_TREE = re.compile(
    r"for \(var half = (\w+) / 2u; half >=? (\w+); half /= 2u\) \{\s+workgroupBarrier\(\);\s+"
    r"if \(lane < half\) \{([^}]*)\}\s+\}\s+(?=workgroupBarrier)"
)
_STEP = re.compile(r"(\w+)\[lane\] = ([^;]*);")
_MAIN = re.compile(r"fn main\(([^{]*)\{")
_MEMBER = "@builtin(subgroup_invocation_id) wg_id: u32, @builtin(subgroup_size) wg_size: u32"
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
# The smallest kernel with such a reduction.
PROBE = """
const LANES = 64u;
var<workgroup> found: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(local_invocation_index) lane: u32) {
  found[lane] = f32(lane);
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { found[lane] = found[lane] + found[lane + half]; }
  }
  workgroupBarrier();
  let sum = found[0];
}
"""


@dataclass(frozen=True, slots=True)
class _Reduction:
    """Of what `lanes` have stored in an array, to its first `end` elements.

    `pair` combines `a` and `b`, elements of type `kind`.
    """

    array: str
    kind: str
    pair: str
    lanes: int
    end: int


def with_subgroups(text: str, unrolled: Sequence[int] = UNROLLED) -> str:
    """The kernel with reductions by subgroup operations; as it is, if it has none that are known.

    Without the directive `enable subgroups;`. `unrolled`: see `UNROLLED`.
    """
    found = _reductions(text)
    if not found:
        return text
    changed, functions = _TREE.sub("", text), _BLOCK
    for one in found:
        changed = re.sub(rf"= {one.array}\[(\w+)\];", rf"= wg_{one.array}(\1);", changed)
        functions += _functions(one) + _reduce(one, [size for size in unrolled if size > one.end])
    main = rf"fn main({_MEMBER}, \1{{\n  wg_find_block(wg_id, wg_size);"
    return f"{_MAIN.sub(main, changed)}{functions}"


def _reductions(text: str) -> list[_Reduction]:
    """None, if somebody has changed the kernel into something beyond what the compiler writes."""
    found = []
    for lanes, end, steps in _TREE.findall(text):
        for array, combine in _STEP.findall(steps):
            declared = re.search(rf"var<workgroup> {array}: array<(\w+), {lanes}>;", text)
            kind = declared[1] if declared else ""
            pair = combine.replace(f"{array}[lane]", "a").replace(f"{array}[lane + half]", "b")
            found.append(_Reduction(array, kind, pair, _size(text, lanes), _size(text, end)))
    is_known = all(one.kind and one.lanes in LANES for one in found) and _MAIN.search(text)
    return found if is_known and len({one.array for one in found}) == len(found) else []


def _size(text: str, name: str) -> int:
    """Of a constant of the kernel; halves down to one end at the literal 0u."""
    found = re.search(rf"const {name} = (\d+)u;", text)
    return int(found[1]) if found else 1


def _functions(reduction: _Reduction) -> str:
    array, kind, name = reduction.array, reduction.kind, f"wg_{reduction.array}"
    return f"""
fn {name}_pair(a: {kind}, b: {kind}) -> {kind} {{ return {reduction.pair}; }}

// Every `step`-th element, by halves.
fn {name}_some(first: u32, step: u32) -> {kind} {{
  var stack: array<{kind}, 9>;
  var depth = 0u;
  let count = {reduction.lanes}u / step;
  for (var i = 0u; i < count; i++) {{
    var x = {array}[first + step * (reverseBits(i) >> (countLeadingZeros(count) + 1u))];
    for (var ones = i; ones % 2u == 1u; ones /= 2u) {{
      depth--;
      x = {name}_pair(stack[depth], x);
    }}
    stack[depth] = x;
    depth++;
  }}
  return stack[0];
}}
"""


def _reduce(reduction: _Reduction, blocks: Sequence[int]) -> str:
    """The function that gives element `own` of the result."""
    kind, end, name = reduction.kind, reduction.end, f"wg_{reduction.array}"
    # Shuffles take numbers only.
    number = "u32" if kind == "bool" else kind
    start = "".join(
        f"if (wg_block == {block}u) {{ x = {_tree(reduction, 0, block)}; }} else "
        for block in blocks
    )
    some = f"select(own, wg_member, wg_block > {end}u), max(wg_block, {end}u)"
    text = f"""
fn {name}(own: u32) -> {kind} {{
  var x: {kind};
  var y: {kind};
  {start}{{ x = {name}_some({some}); }}
"""
    # All invocations shuffle, if they need it or not: shuffles must be in uniform control flow.
    for half in HALVES:
        if half >= end:
            text += f"  y = {kind}(subgroupShuffleXor({number}(x), {half}u));\n"
            text += f"  if (wg_block > {half}u) {{ x = {name}_pair(x, y); }}\n"
    text += f"  y = {kind}(subgroupShuffle({number}(x), wg_first + own));\n"
    return f"{text}  return select(x, y, wg_block > {end}u);\n}}\n"


def _tree(reduction: _Reduction, at: int, half: int) -> str:
    """What the elements of an invocation from number `at` on are together."""
    if half == reduction.lanes:
        return f"{reduction.array}[wg_member + {at}u]"
    left, right = (_tree(reduction, place, 2 * half) for place in (at, at + half))
    return f"wg_{reduction.array}_pair({left}, {right})"
