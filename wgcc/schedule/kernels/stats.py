"""Kernels of statistics: one workgroup for a tensor on a GPU, one thread elsewhere.

Both look at every element twice, because deviation and bins need the mean and the range. Bins are
counted by atomic additions of whole numbers, whose order does not matter.
"""

from __future__ import annotations

from wgcc.ir.graph import Node
from wgcc.ir.index import coordinates_of, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.tree import Declaration, Name, Return
from wgcc.ops.stats import BINS, KINDS
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import Launch, WorkgroupVariable, unroll_times
from wgcc.schedule.kernels.context import GroupCode, GroupContext
from wgcc.schedule.kernels.ordering import PairReduction

THREADS = 256
# Loads of several elements are under way at once, to hide the latency of memory.
UNROLLED = 4
REDUCTIONS = (
    PairReduction("sum_numbers", "numbers", "f32", "{} + {}"),
    PairReduction("least_number", "numbers", "f32", "min({}, {})"),
    PairReduction("greatest_number", "numbers", "f32", "max({}, {})"),
    PairReduction("sum_counts", "counts", "u32", "{} + {}"),
)


def stats_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    return context.code(_launch(node, context, True), _launch(node, context, False).work)


def _launch(node: Node, context: GroupContext, shared: bool) -> Launch:
    emitter = Emitter(context.inlined, context.bindings())
    length, threads = node.inputs[0].type.size, THREADS if shared else 1
    share = ceil_div(length, threads)
    times = max(UNROLLED, unroll_times(2 * share)) if shared else 1
    sizes = {"LENGTH": length, "THREADS": threads, "UNROLLED": times, "BINS": BINS, "KINDS": KINDS}
    memory = (
        WorkgroupVariable("numbers", "f32", ("THREADS",)),
        WorkgroupVariable("counts", "u32", ("THREADS",)),
        WorkgroupVariable("bins", "atomic<u32>", ("BINS",)),
    )
    return context.launch(
        "stats" if shared else "stats_by_thread",
        emitter,
        constants=sizes,
        functions=_functions(node, emitter, length, shared),
        values={"reductions": REDUCTIONS} if shared else {},
        workgroup=(threads, 1, 1),
        grid=(1, 1, 1),
        iterations=2 * ceil_div(share, times) + 4 * len(REDUCTIONS),
        shared=memory if shared else (),
    )


def _functions(node: Node, emitter: Emitter, length: int, shared: bool) -> tuple[Declaration, ...]:
    x, (numbers, counts) = node.inputs[0], node.outputs
    at = coordinates_of(variable("i", length), x.shape)
    readers = emitter.reader("element(i: u32) -> f32", x, at)
    number_at, count_at = variable("i", numbers.type.size), variable("i", counts.type.size)
    store_number = emitter.store(numbers, (number_at,), Name("x"))
    store_count = emitter.store(counts, (count_at,), Name("n"))
    own = emitter.function("put_number(i: u32, x: f32)", store_number)
    own += emitter.function("put_count(i: u32, n: u32)", store_count)
    if not shared:
        load = Return(emitter.bindings.load(counts, count_at))
        own += emitter.function("count(i: u32) -> u32", load)
    return (*readers, *own)
