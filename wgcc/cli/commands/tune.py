"""`wgcc tune`: measures the kernels a bundle could use on this adapter and records the fastest."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.bundles import compile_again, stored_plan
from wgcc.cli.failures import failures
from wgcc.cli.options import BundleFolder, json_option, sizes_option
from wgcc.cli.printing import say, show, show_json, table
from wgcc.errors import WgError
from wgcc.schedule.kernel import CANDIDATE

if TYPE_CHECKING:
    from wgcc_runtime.tune import Case, Tuning


SOURCE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("tune")
@click.argument("bundle", type=BundleFolder())
@click.option(
    "--seconds",
    type=float,
    default=60.0,
    show_default=True,
    help="Stop after about this many seconds.",
)
@click.option("--device", help="Part of an adapter's name (see `wgcc doctor`).")
@click.option("--source", type=SOURCE, help="The model file, needed if it imports others.")
@sizes_option
@json_option
def command(
    bundle: Path,
    seconds: float,
    device: str | None,
    source: Path | None,
    sizes: dict[str, float],
    as_json: bool,
) -> None:
    """Find the fastest kernels for this adapter.

    They are written into BUNDLE as a profile, which runtimes then use on this adapter by default.
    """
    from wgcc.bundle.edited import read_files, with_profile
    from wgcc.bundle.folder import check_folder

    check_folder(bundle)
    device = device or os.environ.get("WGCC_DEVICE") or "webgpu"
    with failures(), tempfile.TemporaryDirectory() as name:
        larger = Path(name) / "candidates"
        _write_candidates(bundle, source, sizes, larger)
        tuning, kernels = _measure(larger, device, seconds)
        chosen = {
            entry: [asdict(item) | {"grid": list(item.grid)} for item in items]
            for entry, items in tuning.replacements.items()
        }
        files = with_profile(read_files(bundle), read_files(larger), tuning.profile, chosen)
        _check(files, Path(name) / "tuned", device)
        _write(files, bundle)
    if as_json:
        show_json(_facts(tuning, kernels))
    else:
        show(_text(tuning, kernels))


def _write_candidates(
    bundle: Path, source: Path | None, sizes: dict[str, float], folder: Path
) -> None:
    """A bundle of the same model with all candidate kernels."""
    from wgcc.bundle.content import captured_patterns, has_pairs
    from wgcc.bundle.edited import read_files
    from wgcc.compiler import compile_file

    plan = stored_plan(bundle)
    if any(name.startswith(CANDIDATE) for name in plan["profiles"]):
        _write(read_files(bundle), folder)
        return
    path = source or bundle / plan["model"]["source"]
    if not path.is_file():
        raise WgError(f"{bundle} does not contain its source; give it with --source")
    if has_pairs(plan):
        raise WgError(f"{bundle} was built with --pairs: tune a bundle that was built without")
    if plan.get("edited"):
        raise WgError(
            f"{bundle} was edited by hand ({', '.join(plan['edited'])}): tune a bundle as it was "
            "built, and edit its kernels then"
        )
    compile_again(path, plan, sizes)
    name, entries = plan["model"]["name"], list(plan["entries"])
    larger = compile_file(
        path,
        sizes=sizes,
        model=name,
        entries=entries,
        twin=False,
        candidates=True,
        capture=captured_patterns(plan),
    )
    larger.write(folder)


def _measure(folder: Path, device: str | None, seconds: float) -> tuple[Tuning, list[str]]:
    """The result of tuning, and the names of the kernels by number."""
    import wgcc_runtime

    with wgcc_runtime.load(folder, device=device) as model:
        say(f"tuning on {model.device_name}, from the {model.profile_name} kernels")
        bar = click.progressbar(length=1, label="tuning", file=sys.stderr)

        def progress(done: int, total: int, label: str) -> None:
            bar.length, bar.label = total, f"{label or 'tuned':24.24}"
            bar.update(done - bar.pos)

        with bar:
            tuning = model.tune(seconds, progress)
        return tuning, [kernel.name for kernel in model.plan.kernels]


def _check(files: dict[str, bytes], folder: Path, device: str | None) -> None:
    """The self-test must pass with the chosen kernels before anything is written."""
    import wgcc_runtime

    _write(files, folder)
    with closing(wgcc_runtime.load(folder, device=device, verify=True)):
        pass


def _write(files: dict[str, bytes], folder: Path) -> None:
    from wgcc.bundle.folder import write_files

    write_files(files, folder)


def _facts(tuning: Tuning, kernels: list[str]) -> dict[str, Any]:
    return {
        "profile": tuning.profile,
        "device": tuning.device,
        "complete": tuning.complete,
        "before_ms": tuning.before_ms,
        "after_ms": tuning.after_ms,
        "kernels": [
            {
                "label": case.dispatch.label,
                "at": case.dispatch.at,
                "dispatches": case.runs,
                "kernel": kernels[case.best[0]],
                "changed": case.best != case.now,
                "ms": {kernels[kernel]: ms for (kernel, _), ms in case.ms.items()},
            }
            for case in tuning.cases
        ],
    }


def _text(tuning: Tuning, kernels: list[str]) -> str:
    lines = [["before ms", "after ms", "tried", "kernel", "was", "line"]]
    lines += [_line(case, kernels) for case in tuning.cases if case.best != case.now]
    changed = len(lines) - 1
    parts = [table(lines, right=range(3))] if changed else []
    missed = "" if tuning.complete else "; not all were tried: raise --seconds"
    parts.append(
        f"profile {tuning.profile}: {changed} of {len(tuning.cases)} kernels changed, all "
        f"dispatches together {tuning.before_ms:.2f} -> {tuning.after_ms:.2f} ms{missed}"
    )
    return "\n".join(parts)


def _line(case: Case, kernels: list[str]) -> list[str]:
    times = [f"{case.ms[case.now]:.3f}", f"{case.ms[case.best]:.3f}", str(len(case.ms))]
    return [*times, kernels[case.best[0]], kernels[case.now[0]], case.dispatch.at]
