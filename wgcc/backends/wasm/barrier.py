"""Where threads wait for each other between two dispatches."""

from __future__ import annotations

from wgcc.backends.wasm.encoding.encoder import I32
from wgcc.backends.wasm.encoding.function import Function

# Words of memory: how many threads have arrived, and how often all of them have.
ARRIVED, ROUND = 0, 4
# Threads look this often before they sleep: for about as long as it takes to wake up, 50 µs.
LOOKS = 100_000


def write_barrier() -> Function:
    """barrier(threads): returns when all have called it; at once if there is one."""
    f = Function("barrier", [("threads", I32)])
    before, looks = f.local("before", I32), f.local("looks", I32)
    done = f.block()
    f.get(0).i32(1).emit("i32.le_u").br_if(done)
    f.i32(0).emit("i32.atomic.load", offset=ROUND).set(before)
    f.i32(0).i32(1).emit("i32.atomic.rmw.add", offset=ARRIVED)
    f.i32(1).emit("i32.add").get(0).emit("i32.eq")
    f.if_()
    f.i32(0).i32(0).emit("i32.atomic.store", offset=ARRIVED)
    f.i32(0).i32(1).emit("i32.atomic.rmw.add", offset=ROUND).emit("drop")
    f.i32(0).i32(-1).emit("memory.atomic.notify", offset=ROUND).emit("drop")
    f.else_()
    again = f.loop()
    f.i32(0).emit("i32.atomic.load", offset=ROUND).get(before).emit("i32.ne").br_if(done)
    f.get(looks).i32(1).emit("i32.add").tee(looks).i32(LOOKS).emit("i32.lt_u").br_if(again)
    f.i32(0).get(before).i64(-1).emit("memory.atomic.wait32", offset=ROUND).emit("drop")
    f.br(again).end()
    f.end()
    f.end()
    return f
