"""Adds the result of tuning for one adapter to a bundle: a profile, and the kernels it needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wgcc.bundle.data_file import FILE as DATA
from wgcc.bundle.kernels import SUBGROUPS
from wgcc.bundle.owned import KERNELS, WEIGHTS
from wgcc.bundle.plan import SOURCE_NAME, TOKENIZER, TWIN, Plan, all_dispatches, plan_text
from wgcc.bundle.web import web_files
from wgcc.errors import WgError

# No file of a bundle is larger; files whose size the plan gives are checked when it is loaded.
MOST_BYTES = 1 << 40
_FOLDERS = tuple(f"{folder}/" for folder in KERNELS)


def read_files(folder: Path) -> dict[str, bytes]:
    """A bundle's own files, as its plan names them, without those for the web.

    They are read as the runtime reads them: never from outside the folder.
    """
    from wgcc_runtime.bundle_files import open_bundle

    read = open_bundle(folder)
    plan = json.loads(read("plan.json", MOST_BYTES) or b"{}")
    found = {name: read(name, MOST_BYTES) for name in own_names(plan)}
    return {name: data for name, data in found.items() if data is not None}


def own_names(plan: Plan) -> list[str]:
    """The files that a bundle of this plan may have, without those for the web."""
    kernels = [path for kernel in plan["kernels"] for path in _files(kernel)]
    names = ["plan.json", *kernels, WEIGHTS, "constants.safetensors", DATA, TWIN]
    if isinstance(plan["model"].get("vocab"), dict):
        names.append(TOKENIZER)
    if SOURCE_NAME.fullmatch(plan["model"]["source"]):
        names.append(plan["model"]["source"])
    return names


def check_same_model(bundle: Plan, again: Plan) -> None:
    """The bundle must equal what compiling its source gives now."""
    count = len(again["kernels"])
    for key in ("buffers", "entries"):
        if bundle[key] != again[key] or bundle["kernels"][:count] != again["kernels"]:
            raise WgError(
                "compiling the bundle's source gives another bundle: repeat the options it was "
                "built with (--set, --model, --entries), or build it again"
            )


def with_profile(
    bundle: Mapping[str, bytes],
    candidates: Mapping[str, bytes],
    name: str,
    chosen: Mapping[str, Iterable[Mapping[str, Any]]],
) -> dict[str, bytes]:
    """The bundle's files with the profile; its replacements count kernels as `candidates` does."""
    plan, other = json.loads(bundle["plan.json"]), json.loads(candidates["plan.json"])
    profiles = {key: value for key, value in plan["profiles"].items() if key != name}
    kernels: list[Plan] = [plan["kernels"][i] for i in _used({**plan, "profiles": profiles})]
    texts = {key: data for key, data in bundle.items() if not key.startswith(_FOLDERS)}
    numbers = {kernel["sha256"]: number for number, kernel in enumerate(kernels)}
    sources = {path: bundle[path] for kernel in kernels for path in _files(kernel)}
    moved = {i: numbers.get(kernel["sha256"]) for i, kernel in enumerate(plan["kernels"])}
    plan["profiles"] = _renumbered(profiles, moved)
    for item in (item for items in chosen.values() for item in items):
        kernel = other["kernels"][item["kernel"]]
        if kernel["sha256"] not in numbers:
            numbers[kernel["sha256"]] = len(kernels)
            kernels.append(_named(kernel, [k["name"] for k in kernels]))
            paths = zip(_files(kernels[-1]), _files(kernel), strict=True)
            sources |= {new: candidates[old] for new, old in paths}
    into = {i: numbers.get(kernel["sha256"]) for i, kernel in enumerate(other["kernels"])}
    plan["profiles"] |= _renumbered({name: chosen}, into)
    plan["kernels"] = kernels
    plan["requires"]["limits"] = _larger(plan["requires"]["limits"], other["requires"]["limits"])
    texts |= {"plan.json": plan_text(plan).encode("utf-8"), **sources}
    # The page shows the source; a bundle may have lost it.
    return {**texts, **web_files(plan, {plan["model"]["source"]: b"", **texts})}


def _used(plan: Plan) -> list[int]:
    """Numbers of the kernels that some dispatch of some profile runs, in ascending order."""
    found = {d["kernel"] for entry in plan["entries"].values() for d in all_dispatches(entry)}
    for profile in plan["profiles"].values():
        found |= {item["kernel"] for items in profile.values() for item in items}
    return sorted(found)


def _renumbered(profiles: Mapping[str, Any], numbers: Mapping[int, Any]) -> Plan:
    return {
        name: {
            entry: [{**item, "kernel": numbers[item["kernel"]]} for item in items]
            for entry, items in profile.items()
        }
        for name, profile in profiles.items()
    }


def _named(kernel: Plan, taken: Iterable[str]) -> Plan:
    """Under an unused name, because candidates of two tunings may have the same one."""
    known, name, count = {other.lower() for other in taken}, kernel["name"], 1
    while name.lower() in known:
        count += 1
        name = f"{kernel['name']}_{count}"
    return {**kernel, "name": name, "file": f"{name}.wgsl"}


def _files(kernel: Plan) -> list[str]:
    """The paths of a kernel and, if it reduces, of its form for subgroups."""
    folders = ["kernels", *([SUBGROUPS] if SUBGROUPS in kernel else [])]
    return [f"{folder}/{kernel['file']}" for folder in folders]


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: max(value, other.get(key, 0)) for key, value in one.items()}
