"""`wgcc bench --report`: a block of Markdown to paste into an issue, predicted beside measured."""

from __future__ import annotations

import platform
from typing import Any

from wgcc import __version__
from wgcc.access.devices import LAUNCH_SECONDS

Facts = dict[str, Any]
# Rows of a table of kernels: the slowest.
SHOWN = 20


def report_block(facts: Facts) -> str:
    """Names no path and no user: adapter, versions, times."""
    system = f"{platform.system()} {platform.machine()}"
    lines = [
        "<details><summary>wgcc bench --report</summary>",
        "",
        f"wgcc {__version__}, {system}, {facts['device']}, {facts['profile']} kernels",
    ]
    for entry, kernels in zip(facts["entries"], facts["kernels"], strict=True):
        lines += ["", *_entry(entry, kernels)]
    return "\n".join([*lines, "", "</details>"])


def _entry(entry: Facts, kernels: Facts) -> list[str]:
    like = kernels.get("predicted_for")
    launch, how = _launch(entry, kernels)
    predicted = _predict(kernels, entry["dispatches"], launch) if like else None
    return [
        f"**{entry['entry']}**: {entry['dispatches']} dispatches, {entry['median_ms']:.3f} ms a "
        f"call, {entry['every_10_ms']:.3f} ms if read every 10th"
        + (f"; predicted for {like}: {predicted:.3f} ms" if predicted else ""),
        f"starting a dispatch: {1000 * launch:.1f} us ({how})"
        + ("" if like else "; this adapter is like no GPU, so nothing is predicted"),
        "",
        "| kernel | times | ms | predicted ms | measured / predicted | GFLOP/s | GB/s |",
        "|---|--:|--:|--:|--:|--:|--:|",
        *(_row(row) for row in sorted(kernels["rows"], key=lambda row: -row["ms"])[:SHOWN]),
    ]


def _launch(entry: Facts, kernels: Facts) -> tuple[float, str]:
    """Milliseconds that each dispatch takes beside its kernel, where calls follow each other."""
    from wgcc_runtime.timing import TIMESTAMPS

    rest = entry["every_10_ms"] - kernels["ms"]
    if kernels["method"] != TIMESTAMPS or rest <= 0:
        return 1000 * LAUNCH_SECONDS, "assumed"
    return rest / entry["dispatches"], "measured: a call without its kernels"


def _predict(kernels: Facts, dispatches: int, launch: float) -> float | None:
    least = [row["predicted_ms"] for row in kernels["rows"]]
    return None if None in least else sum(least) + launch * dispatches


def _row(row: Facts) -> str:
    least = row["predicted_ms"]
    ratio = f"{row['ms'] / least:.1f}" if least else "–"
    rates = ("–" if row[key] is None else f"{row[key]:.1f}" for key in ("gflops", "gbytes_per_s"))
    cells = (row["kernel"], row["times"], f"{row['ms']:.4f}", f"{least:.4f}" if least else "–")
    return f"| {' | '.join([*map(str, cells), ratio, *rates])} |"
