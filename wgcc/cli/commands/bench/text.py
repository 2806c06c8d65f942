"""The results of `wgcc bench` as text, beside what the access model predicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc.access.devices import Device, seconds
from wgcc.access.model import access_or_none
from wgcc.cli.printing import size, table
from wgcc.kernel.parse import readable_module

if TYPE_CHECKING:
    from wgcc_runtime.plan import Dispatch, Plan


def predicted_ms(
    folder: Path, plan: Plan, dispatches: Sequence[Dispatch], device: Device
) -> list[float]:
    """The least milliseconds of each dispatch on a device; 0 where the kernel cannot be read."""
    known: dict[tuple[object, ...], float] = {}
    milliseconds = []
    for dispatch in dispatches:
        bound = [binding.size for binding in dispatch.bindings]
        key = (dispatch.kernel, *dispatch.grid, *bound)
        if key not in known:
            file = folder / "kernels" / plan.kernels[dispatch.kernel].file
            kernel = readable_module(file.read_text(encoding="utf-8"))
            access = access_or_none(kernel, dispatch.grid, dispatch.flops, bound)
            known[key] = 1000 * seconds(access, device) if access else 0.0
        milliseconds.append(known[key])
    return milliseconds


Facts = dict[str, Any]


def bench_text(first: Facts, second: Facts | None = None) -> str:
    """The tables of one bundle, or of two side by side."""
    parts = [_totals(first, second), _entries(first, second)]
    others = {kernels["entry"]: kernels for kernels in (second or {}).get("kernels", [])}
    for kernels in first.get("kernels", []):
        other = others.get(kernels["entry"])
        parts.append(_both(kernels, other) if other else _kernels(kernels))
    return "\n\n".join(parts)


def _totals(first: Facts, second: Facts | None) -> str:
    lines = [["", "load ms", "compile ms", "GPU memory", "temporary"]]
    for facts in (first, second):
        if facts:
            times = [f"{facts['load_ms']:.0f}", f"{facts['compile_ms']:.0f}"]
            lines.append(
                [facts["path"], *times, size(facts["bytes"]), size(facts["temporary_bytes"])]
            )
    note = f"{first['device']}, {first['profile']} kernels; load includes compile, the time the"
    return f"{table(lines, right=range(1, 5))}\n{note} driver takes to compile the kernels"


def _entries(first: Facts, second: Facts | None) -> str:
    others = {row["entry"]: row for row in second["entries"]} if second else {}
    columns = ("first_ms", "median_ms", "best_ms", "every_10_ms")
    head = ["entry", "dispatches", "kernels", "first ms", "median ms", "best ms", "read every 10th"]
    lines = [head + (["other median ms", "other / this"] if second else [])]
    for row in first["entries"]:
        line = [row["entry"], str(row["dispatches"]), str(row["distinct_kernels"])]
        line += [f"{row[key]:.3f}" for key in columns]
        other = others.get(row["entry"])
        if other:
            ratio = other["median_ms"] / row["median_ms"]
            line += [f"{other['median_ms']:.3f}", f"{ratio:.2f}"]
        elif second:
            line += ["-", "-"]
        lines.append(line)
    return table(lines, right=range(1, len(lines[0])))


def _kernels(profile: Facts) -> str:
    """The table of kernels; on real GPUs it has what the access model predicts."""
    like = profile.get("predicted_for")
    extra = [f"least on {like}"] if like else []
    lines = [["ms", *extra, "share", "GFLOP/s", "GB/s", "kernel", "line"]]
    for row in sorted(profile["rows"], key=lambda row: -row["ms"]):
        rates = ["-" if row[key] is None else f"{row[key]:.2f}" for key in RATES]
        share = f"{row['share']:.1%}"
        predicted = [f"{row['predicted_ms']:.4f}"] if like else []
        lines.append([f"{row['ms']:.4f}", *predicted, share, *rates, row["kernel"], row["at"]])
    title = f"{profile['entry']}: {profile['ms']:.3f} ms ({profile['method']})"
    return f"{title}\n{table(lines, right=range(4 + len(extra)))}"


RATES = ("gflops", "gbytes_per_s")


def _both(one: Facts, two: Facts) -> str:
    """Kernels of two bundles, matched by what they compute; the largest difference first."""
    sums: dict[str, list[float]] = {}
    places: dict[str, str] = {}
    for at, profile in enumerate((one, two)):
        for row in profile["rows"]:
            sums.setdefault(row["label"], [0.0, 0.0])[at] += row["ms"]
            places.setdefault(row["label"], row["at"])
    lines = [["ms", "other ms", "difference", "computes", "line"]]
    for label, (mine, other) in sorted(
        sums.items(), key=lambda item: -abs(item[1][1] - item[1][0])
    ):
        times = [f"{mine:.4f}", f"{other:.4f}", f"{other - mine:+.4f}"]
        lines.append([*times, label, places[label]])
    title = f"{one['entry']}: {one['ms']:.3f} ms, other {two['ms']:.3f} ms ({one['method']})"
    return f"{title}\n{table(lines, right=range(3))}"
