"""Writes a bundle into a folder, where an older one and files of the user may be."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from wgcc.bundle.content import Files, holds
from wgcc.bundle.owned import OldPlan, own_files, read_old_plan, written_since
from wgcc.bundle.replace_folder import recover, replace_files
from wgcc.errors import WgError


def write_files(files: Files, folder: Path, force: bool = False) -> dict[str, str]:
    """Write a bundle over an older one: all of it, or nothing if that fails.

    Files that an older build wrote are replaced or deleted, all others stay. A file of a build that
    was changed since is kept under another name; the result maps its name to the new one.
    No link in the folder is followed. `force`: also write into a folder with other files.
    """
    check_folder(folder, force)
    plan = read_old_plan(folder)
    own = _present(folder, own_files(folder, plan)) if plan is not None else set()
    _check_free(files, folder, own, force)
    kept = _names_to_keep(files, folder, plan) if plan is not None else {}
    with _report_failure(folder):
        replace_files(files, folder, own, kept)
    return kept


def write_new(files: Files, folder: Path) -> None:
    """Write files into a folder that is new or empty: all of them, or none."""
    with _report_failure(folder):
        replace_files(files, folder, (), {})


def is_free(folder: Path) -> bool:
    """Whether there is nothing yet, or an empty folder."""
    is_plain_folder = folder.is_dir() and not folder.is_symlink()
    return not any(folder.iterdir()) if is_plain_folder else not os.path.lexists(folder)


@contextlib.contextmanager
def _report_failure(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise WgError(
            f"cannot write {folder}: {error.strerror or error}{where}; nothing was changed"
        ) from error


def check_folder(folder: Path, force: bool = False) -> None:
    """Refuse a folder that is neither empty nor a bundle: its files are not ours to replace."""
    if folder.is_symlink():
        there = os.path.realpath(folder)
        raise WgError(f"{folder} is a symbolic link; give the folder it points to: {there}")
    recover(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise WgError(f"{folder} is a file; a bundle needs a folder")
    if not force and any(folder.iterdir()) and read_old_plan(folder) is None:
        raise WgError(
            f"{folder} is not empty and is not a bundle of wgcc (it has no plan.json of one); "
            "choose another folder, or give --force: then files with a bundle's names are replaced"
        )


def _present(folder: Path, own: Collection[str]) -> set[str]:
    """The own files, without names under which the user made a folder."""
    return {n for n in own if (folder / n).is_symlink() or not (folder / n).is_dir()}


def _check_free(files: Files, folder: Path, own: Collection[str], force: bool) -> None:
    """Refuse if a file or folder of the user has a name that the bundle needs."""
    for name, data in files.items():
        existing = _existing(folder, name)
        if existing is None or existing.is_symlink():
            continue  # a link is replaced, and its target is left alone
        is_theirs = name not in own and not force and not holds(folder, name, data)
        if existing != folder / name or existing.is_dir() or is_theirs:
            raise WgError(
                f"{existing} was not written by a build, and the bundle needs that name: "
                "move or rename it"
            )


def _existing(folder: Path, name: str) -> Path | None:
    """The path that exists where the file, or one of its parent folders, should be."""
    for part in (*reversed(PurePosixPath(name).parents[:-1]), PurePosixPath(name)):
        path = folder / part
        if path.is_symlink() or not path.is_dir():
            return path if os.path.lexists(path) else None
    return folder / name


def _names_to_keep(files: Files, folder: Path, plan: OldPlan) -> dict[str, str]:
    kept = {}
    for name, wanted in written_since(folder, plan):
        if not holds(folder, name, files.get(name, b"")):
            kept[name] = _free_name(folder, wanted, files)
    return kept


def _free_name(folder: Path, wanted: str, files: Files) -> str:
    """`weights.trained.safetensors`, or `weights.trained-2.safetensors` where that is taken."""
    stem, _, end = wanted.rpartition(".")
    name, count = wanted, 1
    while os.path.lexists(folder / name) or name in files:
        count += 1
        name = f"{stem}-{count}.{end}"
    return name
