"""The kernel files of a bundle: equal kernels are one file, named by what it computes first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from wgcc.backends.wgsl.print_tree import print_file
from wgcc.kernel.rewrite.subgroups import with_subgroups
from wgcc.schedule.kernel import GPU, Dispatch, Kernel, Schedule
from wgcc.schedule.kernels.context import tree_of
from wgcc_runtime.bundle_files import code_digest

# The folder of kernels for devices with subgroup operations, and the digest of one in the plan.
SUBGROUPS = "subgroups"
MAX_NAME = 48
# Windows reserves these file names, with any extension.
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)\d", re.IGNORECASE)
# How many uses of a shared kernel its comment lists.
LISTED_USES = 4


@dataclass(frozen=True, slots=True)
class KernelFile:
    """One `.wgsl` file and the (equal) kernels it serves.

    `subgroups` is its text for devices with subgroup operations, if it reduces.
    """

    name: str
    text: str
    kernels: tuple[Kernel, ...]
    subgroups: str = ""

    @property
    def file(self) -> str:
        return f"{self.name}.wgsl"

    @property
    def contents(self) -> dict[str, str]:
        """All files of it, by their paths in a bundle."""
        forms = {f"kernels/{self.file}": self.text, f"{SUBGROUPS}/{self.file}": self.subgroups}
        return {path: text for path, text in forms.items() if text}

    def record(self) -> dict[str, Any]:
        kernel = self.kernels[0]
        return {
            "name": self.name,
            "file": self.file,
            "sha256": code_digest(self.text),
            "entry": "main",
            "workgroup": list(kernel.workgroup),
            "access": [binding.access for binding in kernel.bindings],
            **({SUBGROUPS: code_digest(self.subgroups)} if self.subgroups else {}),
        }


def kernel_files(schedule: Schedule) -> tuple[KernelFile, ...]:
    """Every distinct kernel of a schedule, rendered with a comment that says what it is for."""
    uses: dict[Kernel, list[tuple[Dispatch, str]]] = {}
    for dispatch in schedule.dispatches:
        for profile, launch in dispatch.launches.items():
            uses.setdefault(launch.kernel, []).append((dispatch, profile))
    taken: set[str] = set()
    files = []
    for kernel, used in uses.items():
        dispatch, profile = used[0]
        name = _file_name(dispatch.label, profile, taken)
        tree, notes = tree_of(kernel), _notes(kernel, used)
        form = with_subgroups(tree)
        subgroups = print_file(form, name, notes) if form else ""
        files.append(KernelFile(name, print_file(tree, name, notes), (kernel,), subgroups))
    return tuple(files)


def _file_name(label: str, profile: str, taken: set[str]) -> str:
    stem = re.sub(r"[^A-Za-z0-9]+", "_", label).strip("_")[:MAX_NAME].rstrip("_") or "kernel"
    if not (stem[0].isalpha() or stem[0] == "_") or _DEVICE.fullmatch(stem):
        stem = f"k_{stem}"
    name = stem if profile == GPU else f"{stem}_{profile}"
    candidate, count = name, 1
    while candidate.lower() in taken:
        count += 1
        candidate = f"{name}_{count}"
    taken.add(candidate.lower())
    return candidate


def _notes(kernel: Kernel, used: list[tuple[Dispatch, str]]) -> tuple[str, ...]:
    dispatch, profile = used[0]
    grid = dispatch.launches[profile].grid
    places = list(dict.fromkeys(d.span.place for d, _ in used if d.span))
    computed = list(dict.fromkeys(d.label for d, _ in used))
    more = f" and {len(computed) - LISTED_USES} more" if len(computed) > LISTED_USES else ""
    notes = [f"{', '.join(computed[:LISTED_USES])}{more}"]
    if places:
        notes.append(f"from {', '.join(places[:LISTED_USES])}")
    size = " x ".join(str(n) for n in kernel.workgroup if n > 1) or "1"
    notes.append(f"{' x '.join(map(str, grid))} workgroups of {size} threads ({profile})")
    for binding, shown in zip(kernel.bindings, dispatch.shows, strict=True):
        notes.append(f"  {binding.name}: {shown}")
    return tuple(notes)
