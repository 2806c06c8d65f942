"""How the threads of the machine share out a loop."""

from __future__ import annotations

from wgcc.backends.wasm.encoding.encoder import I32
from wgcc.backends.wasm.kernels.body import Body
from wgcc.backends.wasm.kernels.positions import Counter
from wgcc.backends.wasm.kernels.span import Span
from wgcc.ir.index import Index, variable
from wgcc.ir.places import ceil_div


def share(body: Body, first: int, count: int, grain: int) -> Span:
    """This thread's part of `count` iterations, whole grains of them.

    Parameter `first` of the function is the thread's number, the next one how many there are.
    """
    f, thread, threads = body.f, first, first + 1
    chunk, start, stop = (f.local(name, I32) for name in ("chunk", "start", "stop"))
    # ceil(ceil(count / grain) / threads) * grain
    grains = ceil_div(count, grain)
    f.i32(grains - 1).get(threads).emit("i32.add").get(threads)
    f.emit("i32.div_u").i32(grain).emit("i32.mul").tee(chunk)
    f.get(thread).emit("i32.mul").set(start)
    for local, extra in ((start, False), (stop, True)):
        if extra:
            f.get(start).get(chunk).emit("i32.add").set(stop)
        f.get(local).i32(count).get(local).i32(count).emit("i32.lt_u").emit("select").set(local)
    return Span(_bound(body, start, count), _bound(body, stop, count), guess=count)


def _bound(body: Body, local: int, count: int) -> Index:
    return variable(body.positions.name("bound", Counter(local, 0)), count + 1)
