"""The WebAssembly twin of the bundle in line_bundle.py, written by hand: threads share its loops.

A first input of `TRAP` makes the last thread trap in the first kernel of `train` and `predict`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import line_bundle
from twin_modules import assemble, layout, record

TRAP = 666.0
SIZES = {item["name"]: item["bytes"] for item in line_bundle.make_plan()["buffers"]}
AT, END = layout(SIZES)
W, M, STEP = AT["params"], AT["state"], AT["state"] + 256
X, Y, IDS = AT["input"], AT["input"] + 256, AT["input"] + 512
P, G, LOSS = AT["temp"], AT["output"] + 256, AT["output"]
ROWS, FLAG = AT["output"] + 512, AT["guard"]

# A barrier: at 0 how many threads have arrived, at 4 how often all have.
BARRIER = """
(func $meet (param $threads i32) (local $met i32)
  (if (i32.eq (local.get $threads) (i32.const 1)) (then (return)))
  (local.set $met (i32.atomic.load (i32.const 4)))
  (if (i32.eq (i32.add (i32.atomic.rmw.add (i32.const 0) (i32.const 1)) (i32.const 1))
      (local.get $threads))
    (then
      (i32.atomic.store (i32.const 0) (i32.const 0))
      (drop (i32.atomic.rmw.add (i32.const 4) (i32.const 1)))
      (drop (memory.atomic.notify (i32.const 4) (i32.const -1))))
    (else (loop $again
      (if (i32.eq (i32.atomic.load (i32.const 4)) (local.get $met)) (then
        (drop (memory.atomic.wait32 (i32.const 4) (local.get $met) (i64.const -1)))
        (br $again)))))))
"""


def _loop(count: int, body: str) -> str:
    """Runs `body` for each `$i` that is this thread's."""
    return f"""(local.set $i (local.get $thread))
  (loop $next (if (i32.lt_u (local.get $i) (i32.const {count})) (then
    {body}
    (local.set $i (i32.add (local.get $i) (local.get $threads))) (br $next))))"""


def _kernel(name: str, body: str, more: str = "") -> str:
    head = f"(func ${name} (param $thread i32) (param $threads i32)"
    return f"{head} (local $i i32) {more}\n  {body})"


def _f32(base: int, index: str) -> str:
    return f"(f32.load offset={base} (i32.shl {index} (i32.const 2)))"


I_ = "(local.get $i)"
MINE = "(i32.shl (local.get $i) (i32.const 2))"


def _predict(name: str, to: int) -> str:
    terms = [
        f"(f32.mul {_f32(X + 4 * k, f'(i32.shl {I_} (i32.const 2))')} "
        f"(f32.load (i32.const {W + 4 * k})))"
        for k in range(4)
    ]
    total = terms[0]
    for term in terms[1:]:
        total = f"(f32.add {total} {term})"
    last = "(i32.eq (local.get $thread) (i32.sub (local.get $threads) (i32.const 1)))"
    trap = f"(f32.eq (f32.load (i32.const {X})) (f32.const {TRAP}))"
    return _kernel(
        name,
        f"(if (i32.and {last} {trap}) (then (unreachable)))\n  "
        + _loop(8, f"(f32.store offset={to} {MINE} {total})"),
    )


def _gradient() -> str:
    error = f"(f32.sub {_f32(P, '(local.get $r)')} {_f32(Y, '(local.get $r)')})"
    place = f"(i32.add (i32.shl (local.get $r) (i32.const 2)) {I_})"
    rows = f"""(local.set $r (i32.const 0)) (local.set $slope (f32.const 0))
    (local.set $total (f32.const 0))
    (loop $row
      (local.set $e {error})
      (local.set $slope (f32.add (local.get $slope) (f32.mul (local.get $e) {_f32(X, place)})))
      (local.set $total (f32.add (local.get $total) (f32.mul (local.get $e) (local.get $e))))
      (local.set $r (i32.add (local.get $r) (i32.const 1)))
      (br_if $row (i32.lt_u (local.get $r) (i32.const 8))))
    (f32.store offset={G} {MINE} (f32.mul (local.get $slope) (f32.const 0.25)))
    (if (i32.eqz {I_}) (then
      (f32.store (i32.const {LOSS}) (f32.mul (local.get $total) (f32.const 0.125)))))"""
    more = "(local $r i32) (local $e f32) (local $slope f32) (local $total f32)"
    return _kernel("gradient", _loop(4, rows), more)


def _update() -> str:
    moment = f"(f32.add (f32.mul (f32.const 0.9) {_f32(M, I_)}) {_f32(G, I_)})"
    return _kernel(
        "update",
        _loop(
            4,
            f"""(f32.store offset={M} {MINE} {moment})
    (f32.store offset={W} {MINE} (f32.sub {_f32(W, I_)} (f32.mul (f32.const 0.1) {_f32(M, I_)})))
    (if (i32.eqz {I_}) (then (i32.store (i32.const {STEP})
      (i32.add (i32.load (i32.const {STEP})) (i32.const 1)))))""",
        ),
    )


def _pick() -> str:
    index = f"(i32.load offset={IDS} {MINE})"
    chosen = f"(select (f32.const 0) {_f32(W, index)} (i32.lt_s {index} (i32.const 0)))"
    # A negative index would be outside the memory, so it is not used as one.
    safe = chosen.replace(_f32(W, index), _f32(W, f"(i32.and {index} (i32.const 3))"))
    return _kernel("pick", _loop(3, f"(f32.store offset={ROWS} {MINE} {safe})"))


def _finite() -> str:
    def bad(base: int) -> str:
        word = f"(i32.and (i32.load offset={base} {MINE}) (i32.const 0x7f800000))"
        return f"(i32.eq {word} (i32.const 0x7f800000))"

    found = f"(i32.or {bad(W)} {bad(M)})"
    mark = f"(drop (i32.atomic.rmw.or (i32.const {FLAG}) (i32.const 1)))"
    return _kernel("finite", _loop(4, f"(if {found} (then {mark}))"))


def _module() -> str:
    kernels = [
        _predict("hidden", P), _gradient(), _update(), _predict("predict", AT["output"] + 256),
        _pick(), _kernel("forget", _loop(4, f"(f32.store offset={M} {MINE} (f32.const 0))")),
        _finite(),
    ]  # fmt: skip
    runs = {
        "train": ["hidden", "gradient", "update"],
        "train/guard": ["finite"],
        "predict": ["predict"],
        "pick": ["pick"],
        "forget": ["forget"],
    }
    calls = [
        _entry(f"{entry}{number}", names)
        for entry, all_ in runs.items()
        for number, names in [("", all_), *((f"/{i}", [name]) for i, name in enumerate(all_))]
    ]
    return "\n".join([BARRIER, *kernels, *calls])


def _entry(export: str, kernels: list[str]) -> str:
    both = "(local.get $thread) (local.get $threads)"
    steps = " ".join(f"(call ${name} {both}) (call $meet (local.get $threads))" for name in kernels)
    return f'(func (export "{export}") (param $thread i32) (param $threads i32) {steps})'


def write_bundle(folder: Path, scratch: int = 64, **changes: Any) -> Path:
    """The bundle of line_bundle.py, with this twin; `changes` replace keys of the plan."""
    code, flag = assemble(_module())
    twin = record(code, flag, SIZES, scratch)
    line_bundle.write_bundle(folder, **{"twin": twin, **changes})
    (folder / "twin.wasm").write_bytes(code)
    return folder
