"""`wgcc bench`: how fast the entries of a bundle run, and where the time goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.access.devices import Device, seconds
from wgcc.access.verdict import judge
from wgcc.cli import shell_completion
from wgcc.cli.bundles import stored_plan
from wgcc.cli.dispatch_models import SHORT_NAMES, accesses, runs_like
from wgcc.cli.failures import failures
from wgcc.cli.options import device_option, json_option
from wgcc.cli.printing import say, show, show_json

if TYPE_CHECKING:
    from wgcc_runtime.benchmark import Stopwatch
    from wgcc_runtime.model import Model
    from wgcc_runtime.timing import KernelTime


EXISTING = click.Path(exists=True, path_type=Path)
# Two bundles are measured alternately, so that other load on the machine affects both.
ROUNDS = 4


@click.command("bench")
@click.argument("bundle", type=EXISTING)
@click.option(
    "--entry",
    "entries",
    multiple=True,
    shell_complete=shell_completion.entries,
    help="Only this entry (may be repeated).",
)
@click.option(
    "--per-kernel/--no-per-kernel",
    default=True,
    show_default=True,
    help="Also report the time, rates and source line of every kernel.",
)
@click.option(
    "--compare", type=EXISTING, help="A second bundle, measured alternately with the first."
)
@click.option(
    "--seconds", type=float, default=2.0, show_default=True, help="Seconds to measure each entry."
)
@device_option
@click.option("--profile", help="Which kernels, such as gpu; default: tuned ones, if there are.")
@click.option(
    "--like",
    type=click.Choice(SHORT_NAMES),
    help="Judge kernels for this GPU, from the model alone; default: the one in use, or the 4070.",
)
@click.option("--explain", is_flag=True, help="Say what each column of the tables means.")
@click.option(
    "--report",
    is_flag=True,
    help="Print a block of Markdown to paste into an issue: predicted times beside measured ones.",
)
@json_option
def command(
    bundle: Path,
    entries: tuple[str, ...],
    per_kernel: bool,
    compare: Path | None,
    seconds: float,
    device: str | None,
    profile: str | None,
    like: str | None,
    explain: bool,
    report: bool,
    as_json: bool,
) -> None:
    """Measure how long each entry of BUNDLE takes per call.

    Two figures: with the outputs read after every call, and with one read after every ten calls.
    Then each kernel, with its place in the model, and what holds it back on a GPU.
    """
    if report and (compare or as_json or explain or not per_kernel):
        raise click.UsageError("--report goes with none of the options that choose other output.")
    with failures(), ExitStack() as stack:
        paths = [bundle, *([compare] if compare else [])]
        subjects = [Measured(stack, path, entries, device, profile) for path in paths]
        _measure(subjects, seconds)
        measurements = [subject.facts(per_kernel, like) for subject in subjects]
    if as_json:
        show_json(dict(zip(("bundle", "compared"), measurements, strict=False)))
        return
    if report:
        from wgcc.cli.commands.bench.report import report_block

        show(report_block(measurements[0]))
        return
    from wgcc.cli.columns import BENCH_COLUMNS, explain_columns
    from wgcc.cli.commands.bench.text import bench_text

    show(bench_text(*measurements))
    if explain:
        show("\n" + explain_columns(BENCH_COLUMNS))


class Measured:
    """One loaded bundle and its stopwatches."""

    def __init__(
        self,
        stack: ExitStack,
        path: Path,
        entries: tuple[str, ...],
        device: str | None,
        profile: str | None,
    ) -> None:
        import wgcc_runtime
        from wgcc_runtime.loader import load_plan

        self._path = path
        self.names = list(entries or load_plan(path).entries)
        started = time.perf_counter()
        self._model: Model = stack.enter_context(
            wgcc_runtime.load(path, device=device, profile=profile, entries=self.names)
        )
        self._load_ms = 1000 * (time.perf_counter() - started)
        model = self._model
        say(f"measuring {path} on {model.device_name} ({model.profile_name} kernels) ...")
        self.watches: dict[str, Stopwatch] = {}

    def start(self, name: str) -> Stopwatch:
        from wgcc_runtime.benchmark import Stopwatch

        return self.watches.setdefault(name, Stopwatch(self._model, name))

    def facts(self, per_kernel: bool, like: str | None) -> dict[str, Any]:
        model = self._model
        buffers = model.plan.buffers
        facts: dict[str, Any] = {
            "path": str(self._path),
            "device": model.device_name,
            "profile": model.profile_name,
            "load_ms": self._load_ms,
            "compile_ms": model.compile_ms,
            "bytes": sum(buffer.bytes for buffer in buffers),
            "temporary_bytes": sum(buffer.bytes for buffer in buffers if buffer.role == "temp"),
            "entries": [self._entry(name) for name in self.names],
        }
        if per_kernel:
            plan = stored_plan(self._path)
            facts["kernels"] = [self._kernels(name, plan, like) for name in self.names]
        return facts

    def _entry(self, name: str) -> dict[str, Any]:
        from wgcc_runtime.plan_parts import times_run

        plan, profile = self._model.plan, self._model.profile_name
        used = [dispatch.kernel for dispatch in plan.dispatches(name, profile)]
        runs = sum(times_run(plan.entries[name]))
        counts = {"dispatches": runs, "distinct_kernels": len(set(used))}
        return {**asdict(self.watches[name].timing()), **counts}

    def _kernels(self, name: str, plan: dict[str, Any], like: str | None) -> dict[str, Any]:
        """Rates count each bound byte once, so they are a lower bound of the memory traffic."""
        from wgcc.bundle.model_places import model_places

        profile = self._model.profile(name)
        device, is_measured = runs_like(self._model, like)
        judged = self._judge(name, profile.rows, device, is_measured)
        rows = [
            {**asdict(row), "place": str(place), **_rates(row, profile.total_ms), **verdict}
            for row, place, verdict in zip(
                profile.rows, model_places(plan, name), judged, strict=False
            )
        ]
        facts = {"entry": name, "method": profile.method, "ms": profile.total_ms, "rows": rows}
        predicted = {"predicted_for": device.name} if is_measured else {}
        return {**facts, "judged_for": device.name, **predicted}

    def _judge(
        self, name: str, rows: Sequence[KernelTime], device: Device, is_measured: bool
    ) -> list[dict[str, Any]]:
        """Asks the access model about each dispatch of an entry."""
        model = self._model
        models = accesses(self._path, model.plan, model.plan.dispatches(name, model.profile_name))
        judged: list[dict[str, Any]] = []
        for row, access in zip(rows, models, strict=True):
            if access is None:
                judged.append({"predicted_ms": None, "verdict": None})
                continue
            measured = row.ms / row.times / 1000 if is_measured else None
            least = 1000 * seconds(access, device) * row.times if is_measured else None
            verdict = asdict(judge(access, device, measured))
            judged.append({"predicted_ms": least, "verdict": verdict})
        return judged


def _rates(row: KernelTime, total: float) -> dict[str, float | None]:
    return {
        "share": row.ms / (total or 1.0),
        "gbytes_per_s": row.bytes / row.ms / 1e6 if row.ms else None,
        "gflops": row.flops / row.ms / 1e6 if row.ms and row.flops else None,
    }


def _measure(subjects: list[Measured], seconds: float) -> None:
    """Entry by entry; an entry that both bundles have is measured alternately."""
    for name in dict.fromkeys(name for subject in subjects for name in subject.names):
        having = [subject for subject in subjects if name in subject.names]
        watches = [subject.start(name) for subject in having]
        rounds = ROUNDS if len(watches) > 1 else 1
        for _ in range(rounds):
            for watch in watches:
                watch.run(seconds / rounds)
