"""The results of `wgcc bench` as text."""

from __future__ import annotations

from typing import Any

from wgcc.cli.printing import size, table

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
    extra = ["least ms"] if like else []
    lines = [
        ["ms", *extra, "share", "GFLOP/s", "GB/s", "verdict", "place", "kernel", "line"],
    ]
    rows = sorted(profile["rows"], key=lambda row: -row["ms"])
    for row in rows:
        rates = ["-" if row[key] is None else f"{row[key]:.2f}" for key in RATES]
        predicted = [_cell(row["predicted_ms"])] if like else []
        verdict = row["verdict"]["kind"] if row["verdict"] else "-"
        names = [verdict, row["place"], row["kernel"], row["at"]]
        lines.append([f"{row['ms']:.4f}", *predicted, f"{row['share']:.1%}", *rates, *names])
    title = f"{profile['entry']}: {profile['ms']:.3f} ms ({profile['method']})"
    return f"{title}\n{table(lines, right=range(4 + len(extra)))}\n{_advice(profile, rows)}"


RATES = ("gflops", "gbytes_per_s")
# How many of the slowest kernels have their reasons and advice printed.
EXPLAINED = 3


def _advice(profile: Facts, rows: list[Facts]) -> str:
    """Says why the slowest kernels are not faster on a GPU, and what would help."""
    measured = "measured" if profile.get("predicted_for") else "modelled, not measured"
    lines = [f"on {profile['judged_for']} ({measured}) the slowest are held back by"]
    for row in [row for row in rows if row["verdict"]][:EXPLAINED]:
        verdict = row["verdict"]
        lines.append(f"  {row['place']}, {row['kernel']}: {verdict['kind']} ({verdict['why']});")
        lines.append(f"    helps: {verdict['advice']}")
    return "\n".join(lines) if len(lines) > 1 else ""


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


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
