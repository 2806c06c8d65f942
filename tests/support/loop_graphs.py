"""Graphs with loops, in the text form of `read_ir.py`: each uses more of what loops can do."""

from __future__ import annotations

import re

import numpy as np

from read_ir import read_graphs
from wgcc.ir.graph import Graph
from wgcc.ir.loops import unique_names
from wgcc.ir.verify import verify
from wgcc.ops import infer_types

LSTM = """
  input %h0: f32[B, H]
  input %c0: f32[B, H]
  input %xs: f32[T, B, 4H]
  input %w: f32[H, 4H]
  %h, %c, %ys, %as, %cs = repeat(%h0, %c0, %xs, %w; reverse=False, rounds=T) {
    input %t: u32
    input %x: f32[B, 4H]
    input %w.in: f32[H, 4H]
    state %h.old: f32[B, H]
    state %c.old: f32[B, H]
    %wh = matmul(%h.old, %w.in)
    %a = add(%wh, %x)
    %a.i = slice(%a; starts=(0, 0), steps=(1, 1), sizes=(B, H))
    %a.f = slice(%a; starts=(0, H), steps=(1, 1), sizes=(B, H))
    %a.g = slice(%a; starts=(0, 2H), steps=(1, 1), sizes=(B, H))
    %a.o = slice(%a; starts=(0, 3H), steps=(1, 1), sizes=(B, H))
    %i = sigmoid(%a.i)
    %f = sigmoid(%a.f)
    %g = tanh(%a.g)
    %o = sigmoid(%a.o)
    %ig = mul(%i, %g)
    %fc = mul(%f, %c.old)
    %c.new = add(%fc, %ig)
    %c.tanh = tanh(%c.new)
    %h.new = mul(%o, %c.tanh)
    output y = %h.new
    output a = %a
    output c = %c.old
    write h.old = %h.new
    write c.old = %c.new
  }
  output h = %h
  output c = %c
  output ys = %ys
  output as = %as
  output cs = %cs
"""
# The gradient of the loop above: carries are gradients, what the forward loop stacked is sliced.
LSTM_GRADIENT = """
  input %dh0: f32[B, H]
  input %dc0: f32[B, H]
  input %dys: f32[T, B, H]
  input %as: f32[T, B, 4H]
  input %cs: f32[T, B, H]
  input %w: f32[H, 4H]
  %dh, %dc, %das = repeat(%dh0, %dc0, %dys, %as, %cs, %w; reverse=True, rounds=T) {
    input %t: u32
    input %dy: f32[B, H]
    input %a: f32[B, 4H]
    input %c: f32[B, H]
    input %w.in: f32[H, 4H]
    state %dh.old: f32[B, H]
    state %dc.old: f32[B, H]
    %one.1 = const(value=1.0, dtype=f32)
    %one = broadcast(%one.1; shape=(B, H))
    %a.i = slice(%a; starts=(0, 0), steps=(1, 1), sizes=(B, H))
    %a.f = slice(%a; starts=(0, H), steps=(1, 1), sizes=(B, H))
    %a.g = slice(%a; starts=(0, 2H), steps=(1, 1), sizes=(B, H))
    %a.o = slice(%a; starts=(0, 3H), steps=(1, 1), sizes=(B, H))
    %i = sigmoid(%a.i)
    %f = sigmoid(%a.f)
    %g = tanh(%a.g)
    %o = sigmoid(%a.o)
    %ig = mul(%i, %g)
    %fc = mul(%f, %c)
    %c.new = add(%fc, %ig)
    %ct = tanh(%c.new)
    %dh.now = add(%dh.old, %dy)
    %ct.2 = mul(%ct, %ct)
    %ct.1 = sub(%one, %ct.2)
    %dh.o = mul(%dh.now, %o)
    %dc.h = mul(%dh.o, %ct.1)
    %dc.now = add(%dc.old, %dc.h)
    %i.2 = sub(%one, %i)
    %i.1 = mul(%i, %i.2)
    %f.2 = sub(%one, %f)
    %f.1 = mul(%f, %f.2)
    %g.2 = mul(%g, %g)
    %g.1 = sub(%one, %g.2)
    %o.2 = sub(%one, %o)
    %o.1 = mul(%o, %o.2)
    %di = mul(%dc.now, %g)
    %da.i = mul(%di, %i.1)
    %df = mul(%dc.now, %c)
    %da.f = mul(%df, %f.1)
    %dg = mul(%dc.now, %i)
    %da.g = mul(%dg, %g.1)
    %do = mul(%dh.now, %ct)
    %da.o = mul(%do, %o.1)
    %da = concat(%da.i, %da.f, %da.g, %da.o; axis=1)
    %w.t = transpose(%w.in; perm=(1, 0))
    %dh.new = matmul(%da, %w.t)
    %dc.new = mul(%dc.now, %f)
    output da = %da
    write dh.old = %dh.new
    write dc.old = %dc.new
  }
  output dh = %dh
  output dc = %dc
  output das = %das
"""
GRU = """
  input %h0: f32[B, H]
  input %xs: f32[T, B, 3H]
  input %w: f32[H, 3H]
  %h, %ys = repeat(%h0, %xs, %w; reverse=False, rounds=T) {
    input %t: u32
    input %x: f32[B, 3H]
    input %w.in: f32[H, 3H]
    state %h.old: f32[B, H]
    %one.1 = const(value=1.0, dtype=f32)
    %one = broadcast(%one.1; shape=(B, H))
    %wh = matmul(%h.old, %w.in)
    %w.r = slice(%wh; starts=(0, 0), steps=(1, 1), sizes=(B, H))
    %w.z = slice(%wh; starts=(0, H), steps=(1, 1), sizes=(B, H))
    %w.n = slice(%wh; starts=(0, 2H), steps=(1, 1), sizes=(B, H))
    %x.r = slice(%x; starts=(0, 0), steps=(1, 1), sizes=(B, H))
    %x.z = slice(%x; starts=(0, H), steps=(1, 1), sizes=(B, H))
    %x.n = slice(%x; starts=(0, 2H), steps=(1, 1), sizes=(B, H))
    %a.r = add(%w.r, %x.r)
    %r = sigmoid(%a.r)
    %a.z = add(%w.z, %x.z)
    %z = sigmoid(%a.z)
    %r.n = mul(%r, %w.n)
    %a.n = add(%x.n, %r.n)
    %n = tanh(%a.n)
    %z.1 = sub(%one, %z)
    %new = mul(%z.1, %n)
    %old = mul(%z, %h.old)
    %h.new = add(%new, %old)
    output y = %h.new
    write h.old = %h.new
  }
  output h = %h
  output ys = %ys
"""
# The rounds are the second axis of the input: slices are seen through a transpose.
ALONG_AXIS_1 = """
  input %h0: f32[3]
  input %xs: f32[3, T]
  %xt = transpose(%xs; perm=(1, 0))
  %h, %ys = repeat(%h0, %xt; reverse=True, rounds=T) {
    input %t: u32
    input %x: f32[3]
    state %h.old: f32[3]
    %sum = add(%h.old, %x)
    %h.new = sin(%sum)
    output y = %sum
    write h.old = %h.new
  }
  %back = transpose(%ys; perm=(1, 0))
  output h = %h
  output ys = %back
"""
# Carries of one element and of several types; two of them change places, one stays what it is.
CARRIES = """
  input %a0: f32
  input %b0: f32
  input %n0: i32
  input %k0: f32[2]
  %zero = const(value=0, dtype=bool)
  %a, %b, %n, %k, %found, %ns, %ks = repeat(%a0, %b0, %n0, %k0, %zero; reverse=False, rounds=T) {
    input %t: u32
    state %a.old: f32
    state %b.old: f32
    state %n.old: i32
    state %k.old: f32[2]
    state %found.old: bool
    %two = const(value=2, dtype=i32)
    %t.i = cast(%t; dtype=i32)
    %n.more = mul(%t.i, %two)
    %n.new = add(%n.old, %n.more)
    %limit = const(value=5, dtype=i32)
    %large = gt(%n.new, %limit)
    %found.new = logical_or(%found.old, %large)
    %b.new = cos(%a.old)
    output n = %n.new
    output k = %k.old
    write a.old = %b.old
    write b.old = %b.new
    write n.old = %n.new
    write k.old = %k.old
    write found.old = %found.new
  }
  output a = %a
  output b = %b
  output n = %n
  output k = %k
  output found = %found
  output ns = %ns
  output ks = %ks
"""
# The index alone, what is captured as it is, what a table holds at the index, random numbers.
INDEX = """
  input %table: f32[9, 3]
  input %seed: u32
  %s, %squares, %same, %rows, %noise = repeat(%table, %seed; reverse=False, rounds=T) {
    input %t: u32
    input %table.in: f32[9, 3]
    input %seed.in: u32
    %step = const(value=3, dtype=u32)
    %one = const(value=1, dtype=u32)
    %golden = const(value=2654435769, dtype=u32)
    %t.1 = add(%t, %one)
    %site = mul(%t.1, %golden)
    %noise = random(%seed.in, %step, %site; shape=(2, 3), site=0, kind=normal)
    %square = mul(%t, %t)
    %row = gather(%table.in, %t)
    %total = sum(%row; axes=(0,))
    output s = %total
    output square = %square
    output same = %seed.in
    output row = %row
    output noise = %noise
  }
  output s = %s
  output squares = %squares
  output same = %same
  output rows = %rows
  output noise = %noise
"""
# What a round writes is read in the same round; one loop starts where another one ends.
TWO_LOOPS = """
  input %h0: f32[4, 8]
  input %w: f32[8, 8]
  %h, %ys = repeat(%h0, %w; reverse=False, rounds=T) {
    input %t: u32
    input %w.in: f32[8, 8]
    state %h.old: f32[4, 8]
    %wh = matmul(%h.old, %w.in)
    %y = sin(%wh)
    %top = max(%y; axes=(1,))
    %top.2 = reshape(%top; shape=(4, 1))
    %tops = broadcast(%top.2; shape=(4, 8))
    %h.new = sub(%y, %tops)
    output y = %y
    write h.old = %h.new
  }
  %both = add(%h, %h0)
  %g, %k, %zs = repeat(%h, %both, %ys, %w; reverse=True, rounds=T) {
    input %t.2: u32
    input %x: f32[4, 8]
    input %w.in: f32[8, 8]
    state %g.old: f32[4, 8]
    state %k.old: f32[4, 8]
    %gk = mul(%g.old, %k.old)
    %g.w = matmul(%gk, %w.in)
    %g.x = add(%g.w, %x)
    %g.new = tanh(%g.x)
    output z = %k.old
    write g.old = %g.new
    write k.old = %g.old
  }
  %total = sum(%ys; axes=(0,))
  output h = %h
  output g = %g
  output zs = %zs
  output total = %total
"""
# A loop in a loop: the inner one reads slices of slices, and its results are the outer one's.
NESTED = """
  input %h0: f32[3]
  input %xs: f32[T, 2, 3]
  input %w: f32[3, 3]
  %h, %ys, %lasts = repeat(%h0, %xs, %w; reverse=False, rounds=T) {
    input %t: u32
    input %x: f32[2, 3]
    input %w.in: f32[3, 3]
    state %h.outer: f32[3]
    %scaled = sin(%h.outer)
    %last, %k, %hs = repeat(%h.outer, %scaled, %x, %w.in; reverse=True, rounds=2) {
      input %s: u32
      input %part: f32[3]
      input %w.inner: f32[3, 3]
      state %h.inner: f32[3]
      state %k.inner: f32[3]
      %row = reshape(%h.inner; shape=(1, 3))
      %wh = matmul(%row, %w.inner)
      %wh.1 = reshape(%wh; shape=(3,))
      %sum = add(%wh.1, %part)
      %h.new = sin(%sum)
      %k.new = mul(%k.inner, %h.new)
      output hs = %h.new
      write h.inner = %h.new
      write k.inner = %k.new
    }
    %h.next = add(%last, %k)
    output y = %hs
    output last = %last
    write h.outer = %h.next
  }
  output h = %h
  output ys = %ys
  output lasts = %lasts
"""
# Kernels of other families: attention over a cache that each round writes, lookups.
DECODER = """
  input %cache0: f32[2, 2, T, 4]
  input %qs: f32[T, 2, 2, 1, 4]
  input %ids: i32[T, 2]
  input %emb: f32[5, 4]
  %cache, %outs, %found, %counts = repeat(%cache0, %qs, %ids, %emb; reverse=False, rounds=T) {
    input %t: u32
    input %q: f32[2, 2, 1, 4]
    input %id: i32[2]
    input %emb.in: f32[5, 4]
    state %cache.old: f32[2, 2, T, 4]
    %at = cast(%t; dtype=i32)
    %cache.new = window_update(%cache.old, %q, %at; axis=2)
    %out, %stats = attention(%q, %cache.new, %cache.new; causal=False, scale=0.5, window=None)
    %rows = gather(%emb.in, %id)
    %back = gather_grad(%rows, %id; rows=5)
    output out = %out
    output found = %rows
    output count = %back
    write cache.old = %cache.new
  }
  output cache = %cache
  output outs = %outs
  output found = %found
  output counts = %counts
"""
CASES = {
    "lstm": LSTM,
    "lstm_gradient": LSTM_GRADIENT,
    "gru": GRU,
    "along_axis_1": ALONG_AXIS_1,
    "carries": CARRIES,
    "index": INDEX,
    "two_loops": TWO_LOOPS,
    "nested": NESTED,
    "decoder": DECODER,
}


def loop_graph(name: str, rounds: int = 5, rows: int = 3, width: int = 6) -> Graph:
    """`rows` and `width` are those of the recurrent networks."""
    sizes = {"4H": 4 * width, "3H": 3 * width, "2H": 2 * width, "B": rows, "H": width, "T": rounds}
    text = re.sub(r"\b(\dH|H|B|T)\b", lambda found: str(sizes[found[0]]), CASES[name])
    graph = unique_names(read_graphs(f"entry {name} {{{text}}}\n")[name])
    verify(graph, infer_types)
    return graph


def draw_inputs(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    found = {}
    for value in graph.inputs:
        if value.dtype == "f32":
            found[value.name] = random.uniform(-1, 1, value.shape).astype(np.float32)
        else:
            kind = np.uint32 if value.dtype == "u32" else np.int32
            found[value.name] = random.integers(0, 4, value.shape).astype(kind)
    return found
