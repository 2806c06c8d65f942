"""Reports what a build wrote: as facts for `--json`, and as lines for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wgcc.bundle.content import Files
from wgcc.bundle.owned import WEIGHTS
from wgcc.bundle.plan import with_guard
from wgcc.cli.printing import dispatches, plural, size, table, thousands
from wgcc.compiler import Compiled

MAX_STORAGE_BUFFERS = 8
MOST_LINES = 8


def facts(
    compiled: Compiled,
    folder: Path,
    files: Files,
    kept: Mapping[str, str],
    seconds: float,
) -> Any:
    """`kept`: files that changed since the last build, with the names they were kept under."""
    plan = compiled.planned.plan
    params = compiled.program.params.values()
    limits = plan["requires"]["limits"]
    return {
        "model": compiled.program.name,
        "folder": str(folder),
        "files": {name: len(data) for name, data in files.items()},
        "kept": dict(kept),
        "parameters": sum(tensor.type.size for tensor in params),
        "trainable": sum(tensor.type.size for tensor in params if tensor.trainable),
        "memory": plan["memory"],
        "segments": compiled.remat_parts,
        "entries": {
            name: {
                "dispatches": sum(entry.times),
                "distinct": len(entry.dispatches),
                "ops": entry.naive_dispatches,
            }
            for name, entry in compiled.schedule.entries.items()
        },
        "storageBuffers": limits["maxStorageBuffersPerShaderStage"],
        "seconds": round(seconds, 3),
        "warnings": [item.as_json() for item in compiled.diagnostics],
    }


TOO_LARGE = "no twin.wasm: WebAssembly has 4 GiB of memory, so this model runs on GPUs only"


def summary(facts: Mapping[str, Any], verbose: bool = False) -> str:
    """The lines that `wgcc build` ends with: at most eight, more only with `verbose`."""
    count, total = len(facts["files"]), size(sum(facts["files"].values()))
    frozen = facts["parameters"] - facts["trainable"]
    parameters = plural(facts["parameters"], "parameter") + (
        f" ({thousands(frozen)} of them frozen)" if frozen else ""
    )
    memory, kept = facts["memory"], _lines_of_kept(facts["folder"], facts["kept"])
    notes = [
        *_remat_lines(facts["segments"]),
        *([TOO_LARGE] if facts["tooLargeForTwin"] else []),
    ]
    entries = _dispatches(facts["entries"])
    most = len(entries) if verbose else max(1, MOST_LINES - 3 - len(notes) - len(kept))
    lines = [
        *(_details(facts) if verbose else []),
        f"{parameters}; {size(with_guard(memory))} of GPU memory ({_parts(memory)})",
        *notes,
        *_first(entries, most),
        f"{facts['folder']}: {facts['model']}, {plural(count, 'file')}, {total}, "
        f"built in {facts['seconds']:.2f} s",
        f"{' ' * 2}try it: open {Path(facts['folder']) / 'index.html'} in a browser",
        *kept,
    ]
    return "\n".join(lines)


def _details(facts: Mapping[str, Any]) -> list[str]:
    files = _by_folder(facts["files"])
    return [
        table([(f"  {name}", size(count)) for name, count in files.items()], right=(1,)),
        f"storage buffers per kernel: {facts['storageBuffers']} (limit {MAX_STORAGE_BUFFERS})",
    ]


def _first(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"and {len(lines) - most + 1} more entries (-v lists them)"]


def _lines_of_kept(folder: str, kept: Mapping[str, str]) -> list[str]:
    """Weights that were trained into the bundle must not be lost by building again."""
    lines = [
        f"{name} had changed since the last build; it was kept as {Path(folder) / new}"
        for name, new in kept.items()
    ]
    if WEIGHTS in kept:
        path = shlex.quote(str(Path(folder) / kept[WEIGHTS]))
        lines.append(f"to build with these weights: wgcc build … --weights {path}")
    if any(name.startswith("kernels/") for name in kept):
        lines.append("to build with edited kernels in place: wgcc build … --keep-kernels")
    return lines


def _by_folder(files: Mapping[str, int]) -> dict[str, int]:
    """Each file, then each folder as one line."""
    sizes = {name: count for name, count in files.items() if "/" not in name}
    for folder in dict.fromkeys(name.partition("/")[0] for name in files if "/" in name):
        inside = [count for name, count in files.items() if name.startswith(f"{folder}/")]
        sizes[f"{folder}/ ({plural(len(inside), 'file')})"] = sum(inside)
    return sizes


def _parts(memory: Mapping[str, int]) -> str:
    parts = (f"{name} {size(count)}" for name, count in memory.items() if name != "peak" and count)
    return ", ".join(parts)


def _remat_lines(parts: int) -> list[str]:
    if parts == 1:
        return []
    return [f"to save memory, activations of all but the last of {parts} parts are recomputed"]


def _dispatches(entries: Mapping[str, Mapping[str, int]]) -> list[str]:
    return [
        f"{name}: {plural(entry['ops'], 'op')} → "
        + dispatches(entry["distinct"], entry["dispatches"])
        for name, entry in entries.items()
    ]
