"""A bundle made again from its own files: with a tuned profile, or with kernels edited by hand.

The plan says of each edited file which digest the compiler's own had (`edited`), so that a later
build can tell whether the edit still fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wgcc.bundle.content import DATA, Content, Pieces, is_plain
from wgcc.bundle.kernels import SUBGROUPS
from wgcc.bundle.owned import KERNELS, WEIGHTS, OldPlan, read_old_plan
from wgcc.bundle.plan import TOKENIZER, TWIN, Plan, all_dispatches, plan_text
from wgcc.bundle.web import web_files
from wgcc.errors import WgError
from wgcc.files import SOURCE_NAME
from wgcc_runtime.strict_json import KEY, plan_digest

# No file of a bundle is larger; files whose size the plan gives are checked when it is loaded.
MOST_FILE_BYTES = 1 << 40
_FOLDERS = tuple(f"{folder}/" for folder in KERNELS)


def read_files(folder: Path) -> dict[str, bytes]:
    """A bundle's own files, as its plan names them, without those for the web.

    They are read as the runtime reads them: never from outside the folder.
    """
    from wgcc_runtime.bundle_files import open_bundle

    read = open_bundle(folder)
    plan = json.loads(read("plan.json", MOST_FILE_BYTES) or b"{}")
    contents = {name: read(name, MOST_FILE_BYTES) for name in own_names(plan)}
    return {name: data for name, data in contents.items() if data is not None}


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
    used = _used_kernels({**plan, "profiles": profiles})
    kernels: list[Plan] = [plan["kernels"][number] for number in used]
    texts = {key: data for key, data in bundle.items() if not key.startswith(_FOLDERS)}
    numbers = {kernel["sha256"]: number for number, kernel in enumerate(kernels)}
    sources = {path: bundle[path] for kernel in kernels for path in _files(kernel)}
    moved = {i: numbers.get(kernel["sha256"]) for i, kernel in enumerate(plan["kernels"])}
    plan["profiles"] = _renumber(profiles, moved)
    for item in (item for items in chosen.values() for item in items):
        kernel = other["kernels"][item["kernel"]]
        if kernel["sha256"] not in numbers:
            numbers[kernel["sha256"]] = len(kernels)
            kernels.append(_with_free_name(kernel, [k["name"] for k in kernels]))
            paths = zip(_files(kernels[-1]), _files(kernel), strict=True)
            sources |= {new: candidates[old] for new, old in paths}
    into = {i: numbers.get(kernel["sha256"]) for i, kernel in enumerate(other["kernels"])}
    plan["profiles"] |= _renumber({name: chosen}, into)
    plan["kernels"] = kernels
    plan["requires"]["limits"] = _larger(plan["requires"]["limits"], other["requires"]["limits"])
    texts |= {"plan.json": plan_text(plan).encode("utf-8"), **sources}
    # The page shows the source; a bundle may have lost it.
    return {**texts, **web_files(plan, {plan["model"]["source"]: b"", **texts})}


def _used_kernels(plan: Plan) -> list[int]:
    """Numbers of the kernels that some dispatch of some profile runs, in ascending order."""
    numbers = {d["kernel"] for entry in plan["entries"].values() for d in all_dispatches(entry)}
    for profile in plan["profiles"].values():
        numbers |= {item["kernel"] for items in profile.values() for item in items}
    return sorted(numbers)


def _renumber(profiles: Mapping[str, Any], numbers: Mapping[int, Any]) -> Plan:
    return {
        name: {
            entry: [{**item, "kernel": numbers[item["kernel"]]} for item in items]
            for entry, items in profile.items()
        }
        for name, profile in profiles.items()
    }


def _with_free_name(kernel: Plan, taken: Iterable[str]) -> Plan:
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


PLAN = "plan.json"
EDITED = "edited"
MOST_BYTES = 1 << 20
# The folders that a kernel's forms are in, and the fields of its record that hold their digests.
FORMS = (("kernels", "sha256"), ("subgroups", "subgroups"))


@dataclass(frozen=True, slots=True)
class Edit:
    """A kernel that somebody changed: its file, its text, and the digest of what was built."""

    file: str
    text: str
    built: str


def edits(folder: Path) -> list[Edit]:
    """The kernels of the bundle in a folder that are not as the compiler wrote them."""
    plan = read_old_plan(folder)
    return list(_edits(folder, plan)) if plan else []


def keep_kernels(
    files: Mapping[str, Content], folder: Path
) -> tuple[dict[str, Content], list[str]]:
    """A new build's files with the edited kernels of the old one, and the names of these.

    An edit fits only if the compiler still writes the kernel that was edited.
    """
    kept = edits(folder)
    if not kept:
        return dict(files), []
    content = files[PLAN]
    assert isinstance(content, bytes)
    plan = json.loads(content)
    built = {name: kernel[key] for kernel in plan["kernels"] for name, key in forms_of(kernel)}
    lost = [edit.file for edit in kept if built.get(edit.file) != edit.built]
    if lost:
        raise WgError(
            f"edited by hand, but no longer what this model needs: {', '.join(lost)}. The model, "
            "its sizes or the version of wgcc changed, so that other kernels are built: move the "
            "edited files away, build without --keep-kernels, and edit the new ones"
        )
    texts = {edit.file: edit.text for edit in kept}
    large = {name: content for name, content in files.items() if isinstance(content, Pieces)}
    small = {name: content for name, content in files.items() if isinstance(content, bytes)}
    small |= {name: text.encode("utf-8") for name, text in texts.items()}
    sizes = {name: len(content) for name, content in large.items()}
    return {**rebuild_files(with_edits(plan, texts), small, sizes), **large}, [*texts]


def accept(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """A bundle's files with digests of what is there now, and the names of what was edited."""
    plan = _read_plan(folder)
    new = with_edits(plan, {name: text for name, text, _ in _kernels(folder, plan)})
    if KEY in plan and plan[KEY] != plan_digest(plan):
        new[EDITED] = {PLAN: plan[KEY], **new.get(EDITED, {})}
    _check(new)
    return rebuild_files(new, read_files(folder)), [*new.get(EDITED, {})]


def with_edits(plan: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """The plan with the digests of edited kernels, which say that they were edited."""
    from wgcc_runtime.bundle_files import code_digest, guard_wgsl

    before, kernels = dict(plan.get(EDITED, {})), []
    for kernel in plan["kernels"]:
        digests = {key: code_digest(texts[n]) for n, key in forms_of(kernel) if n in texts}
        for name, key in forms_of(kernel):
            if digests.get(key, kernel[key]) != kernel[key]:
                guard_wgsl(texts[name], name)
                before.setdefault(name, kernel[key])
        kernels.append({**kernel, **digests})
    # One that is as built again is no longer edited.
    now = {name: kernel[key] for kernel in kernels for name, key in forms_of(kernel)}
    still = {name: digest for name, digest in before.items() if now.get(name) != digest}
    others = {key: value for key, value in plan.items() if key != EDITED}
    return {**others, "kernels": kernels, **({EDITED: still} if still else {})}


def forms_of(kernel: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The files of a kernel, each with the field of its record that holds the digest."""
    return [(f"{folder}/{kernel['file']}", key) for folder, key in FORMS if key in kernel]


def rebuild_files(
    plan: Mapping[str, Any], files: Mapping[str, bytes], large: Mapping[str, int] | None = None
) -> dict[str, bytes]:
    """All files of a bundle, those for the web included, for another plan.

    `large` has the sizes of files that are not given because of their size.
    """
    whole = {**files, PLAN: plan_text(dict(plan)).encode("utf-8")}
    own = {name: whole[name] for name in own_names(dict(plan)) if name in whole}
    # The page shows the source; a bundle may have lost it.
    return {**own, **web_files(dict(plan), {plan["model"]["source"]: b"", **own}, large or {})}


def as_built(plan: OldPlan) -> dict[str, Any]:
    """The plan with the digests of the kernels that the compiler wrote."""
    before = plan.get(EDITED, {})
    kernels = [
        {**kernel, **{key: before.get(name, kernel[key]) for name, key in forms_of(kernel)}}
        for kernel in plan["kernels"]
    ]
    return {**plan, "kernels": kernels}


def _edits(folder: Path, plan: OldPlan) -> Iterator[Edit]:
    from wgcc_runtime.bundle_files import code_digest

    for name, text, built in _kernels(folder, plan):
        if code_digest(text) != built:
            yield Edit(name, text, built)


def _kernels(folder: Path, plan: OldPlan) -> Iterator[tuple[str, str, str]]:
    """Every kernel's file, its text, and the digest of what the compiler wrote."""
    before = plan.get(EDITED)
    before = before if isinstance(before, dict) else {}
    kernels = plan["kernels"] if isinstance(plan.get("kernels"), list) else ()
    for name, built in (
        (name, kernel[key]) for kernel in kernels for name, key in forms_of(kernel)
    ):
        if is_plain(folder, name) and (folder / name).stat().st_size <= MOST_BYTES:
            text = (folder / name).read_bytes().decode("utf-8", "replace")
            yield name, text, before.get(name, built)


def _read_plan(folder: Path) -> dict[str, Any]:
    plan = read_old_plan(folder)
    if plan is None:
        raise WgError(f"{folder} is not a bundle of wgcc: it has no plan.json of one")
    return dict(plan)


def _check(plan: Mapping[str, Any]) -> None:
    """Refuses a plan that the runtimes would refuse."""
    from wgcc_runtime.plan import read_plan

    read_plan(plan_text(dict(plan)).encode("utf-8"))
