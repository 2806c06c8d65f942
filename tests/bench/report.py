"""Tables of the measurements of run.py."""

from __future__ import annotations

from statistics import median
from typing import Any

from wgcc.cli.printing import table

PRODUCT_FLOPS = 2 * 512**3
HEAD = (
    "model", "library", "ms/step", "of jax-js", "CPU ms", "of jax-js", "steps", "dispatches",
    "peak MB", "first step s", "CPU s", "code KB", "losses",
)  # fmt: skip

Seen = dict[str, Any]


def report(models: dict[str, dict[str, Seen]]) -> str:
    """One line per model and library; ratios are to jax-js in the same run."""
    lines = [list(HEAD)]
    tables = []
    for model, libraries in models.items():
        jax = libraries.get("jax", {})
        for library, seen in libraries.items():
            lines.append([model, library, *_figures(model, seen, jax if "ms" in jax else None)])
        if "kernels" in libraries.get("wgcc", {}):
            tables.append(f"\n\n{model}: {_kernels(libraries['wgcc']['kernels'])}")
    return table(lines, right=range(2, len(HEAD))) + "".join(tables)


def _figures(model: str, seen: Seen, jax: Seen | None) -> list[str]:
    if "failed" in seen:
        return ["failed", *[""] * (len(HEAD) - 3)]
    ms = median(seen["ms"])
    shown = f"{ms:.2f}" if model != "matmul" else f"{ms:.1f} = {PRODUCT_FLOPS / ms / 1e6:.2f} GF/s"
    line = [shown, f"{ms / median(jax['ms']):.3f}" if jax else ""]
    steps = str(len(seen["ms"]))
    if "counts" not in seen:
        return [*line, "", "", steps, *[""] * 6]
    counts, losses = seen["counts"], seen["losses"]
    ratio = f"{_cpu_ms(seen) / _cpu_ms(jax):.3f}" if jax else ""
    return [
        *line, f"{_cpu_ms(seen):.1f}", ratio, steps, str(counts["step"]),
        f"{counts['peak'] / 1e6:.2f}", f"{seen['firstStep'] / 1000:.2f}", f"{seen['firstCpu']:.2f}",
        f"{seen['code'] / 1000:.0f}", f"{losses[0]:.5f} {losses[2]:.5f}",
    ]  # fmt: skip


def _cpu_ms(seen: Seen) -> float:
    return float(seen["cpu"]) / len(seen["ms"])


def _kernels(profile: Seen) -> str:
    rows = sorted(profile["rows"], key=lambda row: -row["ms"])
    total = sum(row["ms"] for row in rows) or 1.0
    lines = [["ms", "share", "GFLOP/s", "kernel", "line"]]
    for row in rows:
        ms, rate = row["ms"], "-"
        if row["flops"] and ms:
            rate = f"{row['flops'] / ms / 1e6:.2f}"
        lines.append([f"{ms:.2f}", f"{ms / total:.1%}", rate, row["kernel"], row["at"]])
    return f"{total:.1f} ms, {profile['method']}\n" + table(lines, right=range(3))
