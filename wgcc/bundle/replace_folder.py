"""Replaces files of a folder at once: a new folder (the stage) is written beside it and swapped in.

A process that dies at any moment leaves the complete old or the complete new folder. Where a folder
cannot be swapped (a mount point, the working folder, no hard links), old files are moved into a
stage inside it and new ones out of that, one by one. Between two moves the folder holds a mixture;
a move that fails is undone with all others at once, and after a process died by the next build.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from wgcc.bundle.content import Content, Files, holds, parts_of
from wgcc.bundle.file_system import exchange, flush
from wgcc.bundle.owned import is_own_name
from wgcc_runtime.interrupts import held
from wgcc_runtime.replace_file import is_left_behind, make_folder, sync_folder

# File systems allow 255 bytes; the rest is for the suffix that marks a stage.
LONGEST_LABEL = 200
_MARK = r"wgcc-(\d+)-[0-9a-f]{8}"
# Folders of a stage inside the folder, and its list of all new files.
NEW, OLD, JOURNAL = "new", "old", "names"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Afterwards `folder` holds `files`, no others of `own`, and all other files as before.

    `kept` maps names of old files to the names under which their content is kept.
    """

    folder: Path
    files: Files
    own: Collection[str]
    kept: Mapping[str, str]

    def is_done(self) -> bool:
        return (
            not self.kept
            and all(holds(self.folder, name, content) for name, content in self.files.items())
            and not any(os.path.lexists(self.folder / name) for name in self.old_names())
        )

    def old_names(self) -> list[str]:
        return [name for name in self.own if name not in self.files]


def replace_files(
    files: Files, folder: Path, own: Collection[str], kept: Mapping[str, str]
) -> None:
    """Makes the replacement that the arguments describe, or changes nothing and raises."""
    change = Replacement(_place(folder), files, own, kept)
    make_folder(change.folder.parent)
    if change.is_done():
        return
    try:
        _swap_whole(change)
    except OSError:
        if not change.folder.is_dir():
            raise
        # The folder cannot be swapped; or the disk is full, and this fails for the same reason.
        _move_each(change)


def recover(folder: Path) -> None:
    """Repairs what a process left behind that died while it replaced files."""
    folder = _place(folder)
    beside, inside = rf"\.{re.escape(_label(folder))}\.{_MARK}\.(tmp|old)", rf"\.{_MARK}\.(tmp)"
    for place, pattern in ((folder.parent, beside), (folder, inside)):
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            match = re.fullmatch(pattern, path.name)
            if match is None or path.is_symlink() or not is_left_behind(path, match[1]):
                continue
            if place == folder:
                _undo(folder, path)
            if match[2] == "old" and not os.path.lexists(folder):
                os.rename(path, folder)
            else:
                shutil.rmtree(path, ignore_errors=True)


def _place(folder: Path) -> Path:
    """The path with the links of its parents resolved."""
    if folder.name in ("", ".."):
        return folder.resolve()
    return folder.parent.resolve() / folder.name


def _label(folder: Path) -> str:
    """The folder's name, or its digest if the name is too long to add a suffix."""
    name = os.fsencode(folder.name)
    return folder.name if len(name) <= LONGEST_LABEL else hashlib.sha256(name).hexdigest()


def _mark() -> str:
    """The suffix of a stage; it names the process that made it."""
    return f"wgcc-{os.getpid()}-{secrets.token_hex(4)}"


def _write(path: Path, content: Content) -> None:
    with open(path, "xb") as stream:
        stream.writelines(parts_of(content))


# ---- swapping the whole folder


def _swap_whole(change: Replacement) -> None:
    folder = change.folder
    if not folder.name or os.path.ismount(folder) or _is_in_use(folder):
        raise OSError(errno.EBUSY, "this folder has to stay where it is")
    stage = folder.with_name(f".{_label(folder)}.{_mark()}.tmp")
    try:
        stage.mkdir()
        linked = _fill(stage, change)
        flush(stage, change.files)
        with held():
            _swap(stage, folder)
            _catch_up(stage, change, linked)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    sync_folder(folder.parent)


def _is_in_use(folder: Path) -> bool:
    """Whether we run in it: the shell that started us would stay in the old folder."""
    try:
        here = Path.cwd()
    except OSError:
        return False
    return folder in (here, *here.parents)


def _fill(stage: Path, change: Replacement) -> set[int]:
    """Writes the new files, and hard-links all that stay, so that they are never missing.

    Returns the identities of the user's files.
    """
    folder, linked = change.folder, set()
    if folder.exists():
        shutil.copymode(folder, stage)
    for name, content in change.files.items():
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        if holds(folder, name, content):
            with contextlib.suppress(OSError):
                os.link(folder / name, stage / name)
                continue
        _write(stage / name, content)
    for old, new in change.kept.items():
        os.link(folder / old, stage / new)
    for name, entry in _others(folder, change):
        if entry.is_dir(follow_symlinks=False):
            (stage / name).mkdir()
            shutil.copymode(entry, stage / name)
        elif entry.is_symlink():
            os.symlink(os.readlink(entry), stage / name)
        else:
            os.link(entry, stage / name)
            linked.add(entry.inode())
    return linked


def _others(folder: Path, change: Replacement) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All entries that are not the bundle's, folders before what is in them; follows no link."""
    taken = {*change.own, *change.files}
    parents = {str(parent) for name in taken for parent in PurePosixPath(name).parents}
    pending = [folder] if folder.is_dir() else []
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name = Path(entry.path).relative_to(folder).as_posix()
                # A link with the name of a bundle's own file or folder is replaced with them.
                if name not in taken and name not in parents:
                    yield name, entry
                if entry.is_dir(follow_symlinks=False) and name not in taken:
                    pending.append(Path(entry.path))


def _swap(stage: Path, folder: Path) -> None:
    """The stage becomes the folder, and the old folder becomes the stage."""
    if not os.path.lexists(folder):
        os.rename(stage, folder)
    elif not exchange(stage, folder):
        old = stage.with_suffix(".old")
        os.rename(folder, old)
        # A process that dies here leaves the old folder under this name; `recover` restores it.
        try:
            os.rename(stage, folder)
        except BaseException:
            os.rename(old, folder)
            raise
        os.rename(old, stage)


def _catch_up(old: Path, change: Replacement, linked: Collection[int]) -> None:
    """Moves what another process saved into the old folder meanwhile, such as a checkpoint."""
    for name, entry in _others(old, change):
        if entry.is_dir(follow_symlinks=False):
            (change.folder / name).mkdir(exist_ok=True)
        elif entry.inode() not in linked:
            os.replace(entry, change.folder / name)


# ---- moving file by file


def _move_each(change: Replacement) -> None:
    folder = change.folder
    stage = folder / f".{_mark()}.tmp"
    try:
        stage.mkdir()
        new = {n: content for n, content in change.files.items() if not holds(folder, n, content)}
        new |= {name: (folder / old).read_bytes() for old, name in change.kept.items()}
        for name, content in new.items():
            (stage / NEW / name).parent.mkdir(parents=True, exist_ok=True)
            _write(stage / NEW / name, content)
        (stage / JOURNAL).write_text(json.dumps([*new]), encoding="utf-8")
        flush(stage, [JOURNAL, *(f"{NEW}/{name}" for name in new)])
        # The plan is replaced last, so that a mixture of two bundles never looks like a bundle.
        order = sorted([*change.old_names(), *new], key="plan.json".__eq__)
        with held():
            try:
                for name in order:
                    _move(folder, stage, name)
            except BaseException:
                _undo(folder, stage)
                raise
            # A process that dies while it removes the stage has nothing to undo.
            _forget(stage)
            _remove_empty(folder, change.old_names())
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    sync_folder(folder)


def _move(folder: Path, stage: Path, name: str) -> None:
    """Moves the old file into the stage, if there is one, and the new one out of it."""
    parent, path = str(PurePosixPath(name).parent), folder / name
    # A link that stands for a folder is replaced, too.
    old = parent if (folder / parent).is_symlink() else name if os.path.lexists(path) else ""
    if old:
        (stage / OLD / old).parent.mkdir(parents=True, exist_ok=True)
        os.rename(folder / old, stage / OLD / old)
    if (stage / NEW / name).is_file():
        path.parent.mkdir(exist_ok=True)
        os.rename(stage / NEW / name, path)


def _undo(folder: Path, stage: Path) -> None:
    """Moves all back; what is in its old place already stays there, so it can be repeated.

    The folder may come from an untrusted source: only names that a build could write are moved.
    """
    try:
        journal = json.loads((stage / JOURNAL).read_text(encoding="utf-8"))
        names = [name for name in journal if is_own_name(name)]
    except (OSError, ValueError, TypeError, RecursionError):
        return
    for name in names:
        if not os.path.lexists(stage / NEW / name):
            _move_back(folder, name, stage, f"{NEW}/{name}")
    _remove_empty(folder, names)
    for path in (stage / OLD).rglob("*"):
        name = path.relative_to(stage / OLD).as_posix()
        if is_own_name(name) and (path.is_symlink() or not path.is_dir()):
            (folder / name).parent.mkdir(exist_ok=True)
            _move_back(stage, f"{OLD}/{name}", folder, name)
    _forget(stage)


def _move_back(source: Path, name: str, target: Path, new: str) -> None:
    links = [(source / parent).is_symlink() for parent in PurePosixPath(name).parents]
    links += [(target / parent).is_symlink() for parent in PurePosixPath(new).parents]
    if not any(links):
        with contextlib.suppress(OSError):
            os.rename(source / name, target / new)


def _forget(stage: Path) -> None:
    """Deletes the list of new files of a stage: nothing of it is moved back then."""
    with contextlib.suppress(OSError):
        (stage / JOURNAL).unlink()


def _remove_empty(folder: Path, names: Sequence[str]) -> None:
    """Removes folders of these files, unless there are other files in them."""
    for parent in {PurePosixPath(name).parent for name in names if "/" in name}:
        with contextlib.suppress(OSError):
            (folder / parent).rmdir()
