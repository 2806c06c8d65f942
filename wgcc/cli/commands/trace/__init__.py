"""`wgcc trace`: the dispatches of a call as a timeline for Perfetto, Chrome or speedscope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wgcc.cli import shell_completion
from wgcc.cli.dispatch_models import SHORT_NAMES
from wgcc.cli.failures import failures
from wgcc.cli.options import BundleFolder, device_option
from wgcc.cli.printing import plural, say
from wgcc.errors import WgError

if TYPE_CHECKING:
    from wgcc.cli.commands.trace.events import Step
    from wgcc_runtime.plan import Plan


@click.command("trace")
@click.argument("bundle", type=BundleFolder())
@click.option(
    "-o",
    "output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="trace.json",
    show_default=True,
    help="The file to write.",
)
@click.option(
    "--entry",
    metavar="NAME",
    shell_complete=shell_completion.entries,
    help="The entry to measure; default: one that trains, else the first.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="How often each dispatch is measured; the median counts.",
)
@device_option
@click.option("--profile", help="Which kernels, such as gpu; default: tuned ones, if there are.")
@click.option(
    "--like",
    type=click.Choice(SHORT_NAMES),
    help="Predict times for this GPU; default: the one in use, or the 4070.",
)
def command(
    bundle: Path,
    output: Path,
    entry: str | None,
    repeat: int,
    device: str | None,
    profile: str | None,
    like: str | None,
) -> None:
    """Write a timeline of one call of an entry of BUNDLE, in the trace format of Chrome.

    Open the file at ui.perfetto.dev, chrome://tracing or speedscope.app. Each dispatch has its
    place in the model, source line, bytes, and its measured and predicted time.
    """
    from wgcc.cli.commands.trace.events import trace_of
    from wgcc_runtime.loader import load_plan
    from wgcc_runtime.replace_file import check_replaceable, replace_file

    with failures():
        name = _choose(load_plan(bundle), entry)
        check_replaceable(output)
        step = _measure(bundle, name, repeat, device, profile, like)
        trace = trace_of(step)
        replace_file(output, json.dumps(trace, ensure_ascii=False).encode())
    count = plural(len(step.order), "dispatch", "dispatches")
    say(f"{output}: {step.entry} on {step.device}, {count} in {step.ms:.3f} ms ({step.method})")
    say("  open it at ui.perfetto.dev, chrome://tracing or speedscope.app")


def _choose(plan: Plan, entry: str | None) -> str:
    if entry is None:
        return next((e.name for e in plan.entries.values() if e.training), next(iter(plan.entries)))
    if entry not in plan.entries:
        raise WgError(f"there is no entry {entry}; there are: {', '.join(plan.entries)}")
    return entry


def _measure(
    bundle: Path,
    entry: str,
    repeat: int,
    device: str | None,
    profile: str | None,
    like: str | None,
) -> Step:
    import wgcc_runtime
    from wgcc.cli.commands.trace.events import measure_step

    with wgcc_runtime.load(bundle, device=device, profile=profile, entries=[entry]) as model:
        say(f"measuring {entry} on {model.device_name} ({model.profile_name} kernels) ...")
        return measure_step(model, bundle, entry, repeat, like)
