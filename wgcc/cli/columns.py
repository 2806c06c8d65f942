"""The meaning of the columns of tables, as `--explain` prints it below them."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.access.devices import DEVICES, LAUNCH_SECONDS
from wgcc.access.verdict import COVERING_THREADS, WAITING

VERDICTS = {
    "launch": f"starting the kernel (about {1e6 * LAUNCH_SECONDS:.0f} us) takes longer than "
    "its work",
    "latency": "the GPU waits for memory or barriers: fewer workgroups than it has units, fewer "
    f"than {COVERING_THREADS} threads on a unit, long loops in a thread, or measured above "
    f"{WAITING:.0f} x the least",
    "bandwidth": "memory is the busiest part",
    "arithmetic": "the lanes are the busiest part",
    "caches": "the way from the caches to the lanes is the busiest part",
    "workgroup memory": "memory that a workgroup shares is the busiest part",
}
BENCH_COLUMNS = {
    "load ms": "time to read, check and prepare the bundle",
    "compile ms": "of that, the time the driver takes to compile the kernels",
    "GPU memory": "all buffers of the plan",
    "temporary": "of that, values that live only during a call",
    "dispatches": "kernels that one call starts, each round of a loop counted",
    "kernels": "different ones among them",
    "first ms": "the first call, in which some drivers compile",
    "median ms": "a call whose scalar outputs are read at once, as a loss is",
    "best ms": "the shortest of these calls",
    "read every 10th": "ms of a call if results are read only after ten",
    "ms": "median time of the dispatch, of all rounds together if it is in a loop",
    "least ms": "what the access model says it takes at least on this GPU",
    "share": "its part of the sum of all kernels",
    "GFLOP/s": "multiplications and additions of matrix products in a second, in billions",
    "GB/s": "bytes of all bound buffers, each once, in a second: a lower bound of memory traffic",
    "verdict": "what holds it back on a GPU, see below",
    "place": "the layer of the model whose work it does; entry: the entry itself",
    "kernel": "its name: wgcc show BUNDLE --kernel NAME prints it",
    "line": "the line of the model that it comes from",
    **{f"verdict {name}": text for name, text in VERDICTS.items()},
}
KERNEL_COLUMNS = {
    "kernel": "its name: wgcc show MODEL --kernel NAME prints it",
    "workgroup": "threads that run together and share memory",
    "shared": "bytes of memory that a workgroup shares",
    "registers": "of a thread: its variables that are alive at once, and a few more",
    "workgroups": "how many of them the dispatch starts, of the dispatch that moves most",
    "operations": "multiplications and additions of matrix products",
    "bytes": "what memory must give and take, each byte once",
    "moved": "bytes that go through the caches",
    "sectors": "32-byte pieces of memory touched, in units of the least possible (1.00: coalesced)",
    "banks": "how many lanes wait for one bank of workgroup memory (1: none waits)",
    "barriers": "at which a workgroup waits for its threads; in brackets with subgroups",
    "useful": "share of the arithmetic that is no padding of tiles",
    **{
        f"{device.short} us": f"least microseconds on {device.name}, without the time to start"
        for device in DEVICES
    },
    "line": "the line of the model that it comes from",
}


def explain_columns(columns: Mapping[str, str]) -> str:
    width = max(map(len, columns))
    return "\n".join(f"{name.ljust(width)}  {text}" for name, text in columns.items())
