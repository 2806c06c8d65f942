"""`wgcc doctor`: reports what this machine has to run bundles, and what to install."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
from typing import Any

import click

from wgcc.cli.failures import PROBLEM
from wgcc.cli.options import json_option
from wgcc.cli.printing import say, show, show_json

PACKAGES = ("wgcc", "wgpu", "wasmtime", "numpy", "safetensors")
# Programs other than Python that run bundles, with the names of their executables.
PROGRAMS = {
    "node": ("node",),
    "deno": ("deno",),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "chrome"),
}
FEATURES = ("timestamp-query", "shader-f16")


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """Show what can run bundles on this machine.

    Exit code 1 if nothing can run bundles: no adapter is found and wasmtime is missing.
    """
    adapters = _adapters()
    report: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "default": _default(),
        "adapters": adapters,
        "programs": {name: _program(names) for name, names in PROGRAMS.items()},
        "isa": _gpu_compilers(),
    }
    if as_json:
        show_json(report)
    else:
        _show(report)
    if not adapters:
        from wgcc_runtime.device import NO_ADAPTER

        say(NO_ADAPTER)
        if not report["packages"]["wasmtime"]:
            raise click.exceptions.Exit(PROBLEM)


def _default() -> dict[str, str]:
    from wgcc_runtime.choice import default_choice

    device, reason = default_choice()
    return {"device": device, "reason": reason}


def _adapters() -> list[dict[str, Any]]:
    """None where wgpu is missing or broken: bundles run as WebAssembly then."""
    from wgcc_runtime.device import adapter_name, adapters, limit_key
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.plan_parts import DEFAULT_LIMITS

    records = []
    try:
        there = adapters()
    except WgccError as error:
        say(str(error), style="error")
        return []
    for adapter in there:
        info = adapter.info
        limits = {key: adapter.limits.get(limit_key(key)) for key in DEFAULT_LIMITS}
        records.append(
            {
                "name": adapter_name(adapter),
                "kind": info["adapter_type"],
                "backend": info["backend_type"],
                "driver": info["description"] or info["vendor"],
                "features": [feature for feature in FEATURES if feature in adapter.features],
                "limits": limits,
                "below_default": _below(limits, DEFAULT_LIMITS),
            }
        )
    return records


def _below(limits: dict[str, Any], defaults: dict[str, int]) -> list[str]:
    """Names of the limits where the adapter offers less than WebGPU's defaults."""
    return [
        name
        for name, value in limits.items()
        if value is not None
        and (value > defaults[name] if name.startswith("min") else value < defaults[name])
    ]


def _gpu_compilers() -> dict[str, list[str]]:
    """For `wgcc show --isa`: the ways to each card, and what is missing for them."""
    from wgcc.isa.targets import TARGETS
    from wgcc.isa.tools import missing

    routes = ((name, route) for name, target in TARGETS.items() for route in target.routes)
    return {f"{name} by {route}": missing(route) for name, route in routes}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _program(names: tuple[str, ...]) -> dict[str, str] | None:
    for name in names:
        path = shutil.which(name)
        if path:
            return {"path": path, "version": _program_version(path)}
    return None


def _program_version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    return (done.stdout or done.stderr).strip().split("\n")[0]


def _show(report: dict[str, Any]) -> None:
    show(report["system"])
    show(", ".join(f"{name} {version or '-'}" for name, version in report["packages"].items()))
    device, reason = report["default"]["device"], report["default"]["reason"]
    what = "their WebAssembly twin" if device == "wasm" else device
    show(f"\nbundles run on {click.style(what, bold=True)}: {reason}")
    if device == "wasm" and report["adapters"]:
        show(f"(without a twin, from wgcc build --no-twin: on {report['adapters'][0]['name']})")
    for adapter in report["adapters"]:
        show(f"\nadapter {click.style(adapter['name'], bold=True)}")
        show(f"  {adapter['kind']}, {adapter['backend']}, driver {adapter['driver'] or '-'}")
        show(f"  features: {', '.join(adapter['features']) or 'none beyond the basic ones'}")
        below = adapter["below_default"]
        text = (
            f"below WebGPU's defaults: {', '.join(below)}"
            if below
            else "at least WebGPU's defaults"
        )
        show(f"  limits: {text}")
    show("")
    for name, program in report["programs"].items():
        show(f"{name:9} {program['version'] if program else 'not found'}")
    show("\nwgcc show --isa")
    for way, lacking in report["isa"].items():
        show(f"  {way:14} {'needs ' + '; '.join(lacking) if lacking else 'ready'}")
