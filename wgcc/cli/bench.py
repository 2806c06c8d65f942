"""`wgcc bench`: how fast the entries of a bundle run, and where the time goes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.failures import failures
from wgcc.cli.options import json_option
from wgcc.cli.printing import say, show, show_json, table

if TYPE_CHECKING:
    from wgcc_runtime.benchmark import Timing
    from wgcc_runtime.model import Model
    from wgcc_runtime.timing import Profile

EXISTING = click.Path(exists=True, path_type=Path)


@click.command("bench")
@click.argument("bundle", type=EXISTING)
@click.option("--entry", "entries", multiple=True, help="Only this entry (may be repeated).")
@click.option("--per-kernel", is_flag=True, help="Time, rates and source line of every kernel.")
@click.option("--compare", type=EXISTING, help="Another bundle to measure beside it.")
@click.option("--seconds", type=float, default=2.0, show_default=True, help="Time per entry.")
@click.option("--device", help="Part of an adapter's name (see `wgcc doctor`).")
@click.option("--profile", help="gpu or cpu kernels; default: what suits the adapter.")
@json_option
def command(
    bundle: Path,
    entries: tuple[str, ...],
    per_kernel: bool,
    compare: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure milliseconds per call of each entry of BUNDLE."""
    with failures():
        first = _measure(bundle, entries, per_kernel, **options)
        second = _measure(compare, entries, False, **options) if compare else None
    if as_json:
        found = {"bundle": first, **({"compared": second} if second else {})}
        show_json(found)
        return
    _show_entries(first, second)
    for profile in first.get("kernels", []):
        _show_kernels(profile)


def _measure(
    bundle: Path,
    entries: tuple[str, ...],
    per_kernel: bool,
    seconds: float,
    device: str | None,
    profile: str | None,
) -> dict[str, Any]:
    import wgcc_runtime
    from wgcc_runtime.benchmark import benchmark

    with wgcc_runtime.load(bundle, device=device, profile=profile) as model:
        say(f"measuring {bundle} on {model.device_name} ({model.profile_name} kernels) ...")
        names = [model.entry(name).name for name in entries] or list(model.plan.entries)
        found: dict[str, Any] = {
            "path": str(bundle),
            "device": model.device_name,
            "profile": model.profile_name,
            "entries": [_timing(model, benchmark(model, name, seconds)) for name in names],
        }
        if per_kernel:
            found["kernels"] = [_profile(model.profile(name)) for name in names]
        return found


def _timing(model: Model, timing: Timing) -> dict[str, Any]:
    count = len(model.plan.entries[timing.entry].dispatches)
    return {**asdict(timing), "dispatches": count}


def _profile(profile: Profile) -> dict[str, Any]:
    """Rates are of the bytes bound, so they are what the memory must deliver at most."""
    total = profile.total_ms or 1.0
    rows = [
        {
            **asdict(row),
            "share": row.ms / total,
            "gbytes_per_s": row.bytes / row.ms / 1e6 if row.ms else None,
            "gflops": row.flops / row.ms / 1e6 if row.ms and row.flops else None,
        }
        for row in profile.rows
    ]
    return {"entry": profile.entry, "method": profile.method, "ms": total, "rows": rows}


def _show_entries(first: dict[str, Any], second: dict[str, Any] | None) -> None:
    others = {row["entry"]: row for row in second["entries"]} if second else {}
    lines = [["entry", "dispatches", "first ms", "median ms", "best ms"]]
    if second:
        lines[0] += ["other median ms", "other / this"]
    for row in first["entries"]:
        line = [row["entry"], str(row["dispatches"])]
        line += [f"{row[key]:.3f}" for key in ("first_ms", "median_ms", "best_ms")]
        other = others.get(row["entry"])
        if other:
            ratio = other["median_ms"] / row["median_ms"]
            line += [f"{other['median_ms']:.3f}", f"{ratio:.2f}"]
        elif second:
            line += ["-", "-"]
        lines.append(line)
    show(table(lines, right=range(1, len(lines[0]))))


def _show_kernels(profile: dict[str, Any]) -> None:
    show(f"\n{profile['entry']}: {profile['ms']:.3f} ms ({profile['method']})")
    lines = [["ms", "share", "GFLOP/s", "GB/s", "kernel", "line"]]
    for row in sorted(profile["rows"], key=lambda row: -row["ms"]):
        rates = [row["gflops"], row["gbytes_per_s"]]
        lines.append(
            [
                f"{row['ms']:.4f}",
                f"{row['share']:.1%}",
                *("-" if rate is None else f"{rate:.2f}" for rate in rates),
                row["kernel"],
                row["at"],
            ]
        )
    show(table(lines, right=range(4)))
