"""`wgcc verify`: runs the self-test recorded in a bundle, one line per stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wgcc.cli.failures import failures
from wgcc.cli.group import CHECK_FAILED, USAGE
from wgcc.cli.options import json_option
from wgcc.cli.printing import say, show_json

STACKS = ("python", "node", "deno", "chrome")


@click.command("verify")
@click.argument("bundle", type=click.Path(exists=True, path_type=Path))
@click.option("--on", "stacks", default="python", show_default=True, help="python,node,deno,chrome")
@click.option("--device", help="Part of an adapter's name (see `wgcc doctor`).")
@click.option("--profile", help="gpu or cpu kernels; default: what suits the adapter.")
@json_option
def command(
    bundle: Path, stacks: str, device: str | None, profile: str | None, as_json: bool
) -> None:
    """Check BUNDLE against the outputs recorded when it was built; exit code 3 if one is off."""
    code = 0
    found: list[dict[str, Any]] = []
    for stack in dict.fromkeys(stacks.split(",")):
        if stack not in STACKS:
            raise click.BadParameter(f"{stack} is none of {', '.join(STACKS)}", param_hint="--on")
        if stack != "python":
            say(f"{stack:8} not built yet: bundles run from Python only so far")
            code = max(code, USAGE)
            continue
        with failures():
            result = _on_python(bundle, device, profile)
        found.append(result)
        code = max(code, 0 if result["passed"] else CHECK_FAILED)
    if as_json:
        show_json(found)
    raise click.exceptions.Exit(code)


def _on_python(bundle: Path, device: str | None, profile: str | None) -> dict[str, Any]:
    import wgcc_runtime

    with wgcc_runtime.load(bundle, device=device, profile=profile) as model:
        results = wgcc_runtime.run_selftest(model)
        where = f"{model.device_name}, {model.profile_name} kernels"
    bad = [result for result in results if not result.passed]
    if not results:
        say(f"{'python':8} {where}: the bundle records no self-test")
    for result in bad:
        say(f"{'python':8} {where}: wrong  {result}", style="error")
    if results and not bad:
        worst = max(results, key=lambda result: result.error / max(result.tolerance, 1e-30))
        say(f"{'python':8} {where}: ok  {len(results)} outputs, worst {worst}", style="good")
    outputs = [
        {"entry": r.entry, "output": r.output, "error": r.error, "tolerance": r.tolerance}
        for r in results
    ]
    return {"stack": "python", "on": where, "passed": not bad, "outputs": outputs}
