"""Compiles SPIR-V for a family of Radeon cards, in a process of its own (`worker.py`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.isa import tools
from wgcc.isa.processes import last_line, run_worker

UNKNOWN = "Unknown family"


def compile_files(files: Mapping[str, Path], families: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns by kernel `statistics`, `subgroup` and `listing`, or `error`.

    `families` are names of one family: that which an old Mesa has for it comes last.
    """
    command = [sys.executable, "-m", "wgcc.isa.radv.worker", *map(str, files.values())]
    said = ""
    for family in families:
        variables = {
            "RADV_FORCE_FAMILY": family,
            **tools.only_driver("radv"),
            "VK_INSTANCE_LAYERS": "",
            "MESA_SHADER_CACHE_DISABLE": "true",
        }
        code, printed, said = run_worker("RADV", command, variables)
        if UNKNOWN not in said:
            return _results(list(files), code, printed, said)
    raise WgError(f"this Mesa knows no {families[0]}: {last_line(said)}")


def _results(
    kernels: Sequence[str], code: int, printed: str, said: str
) -> dict[str, dict[str, Any]]:
    lines = list(_parse(printed))
    last = lines[-1] if lines else {}
    if code:
        where = f" while it compiled {kernels[last['start']]}" if "start" in last else ""
        raise WgError(f"RADV crashed{where} (exit code {code}): {last_line(said)}")
    if "error" in last and "kernel" not in last:
        raise WgError(f"RADV: {last['error']}")
    return {kernels[line["kernel"]]: line for line in lines if "kernel" in line}


def _parse(printed: str) -> Iterator[dict[str, Any]]:
    for line in printed.splitlines():
        if line.startswith("{"):
            yield json.loads(line)
