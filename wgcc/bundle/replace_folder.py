"""Replaces files of a folder at once: a new folder (the stage) is written beside it and swapped in.

A process that dies at any moment leaves the complete old or the complete new folder. Where a folder
cannot be swapped (a mount point, the working folder, no hard links), files are moved one by one;
between two moves the folder holds a mixture, which the next build undoes by the stage's journal.
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
from wgcc_runtime.replace_file import is_left_behind, sync_folder

# File systems allow 255 bytes; the rest is for the suffix that marks a stage.
LONGEST_LABEL = 200
_MARK = r"wgcc-(\d+)-[0-9a-f]{8}"
# A stage inside the folder has new files and a journal; old files are `old-0`, `old-1`, …
NEW, JOURNAL = "new", "moves"

# The name of a file or folder that is put in place, and whether that name was taken before.
Move = tuple[str, bool]


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
            and not any(os.path.lexists(self.folder / name) for name in self.gone())
        )

    def gone(self) -> list[str]:
        return [name for name in self.own if name not in self.files]


def replace_files(
    files: Files, folder: Path, own: Collection[str], kept: Mapping[str, str]
) -> None:
    """Makes the replacement that the arguments describe, or changes nothing and raises."""
    change = Replacement(_place(folder), files, own, kept)
    change.folder.parent.mkdir(parents=True, exist_ok=True)
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
    beside = re.compile(rf"\.{re.escape(_label(folder))}\.{_MARK}\.(tmp|old)")
    inside = re.compile(rf"\.{_MARK}\.(tmp)")
    for place, pattern in ((folder.parent, beside), (folder, inside)):
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            match = pattern.fullmatch(path.name)
            if match is None or not is_left_behind(path, match[1]):
                continue
            if place == folder:
                _undo(folder, path, _read_journal(path))
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
        # The plan is replaced last, so that a mixture of two bundles never looks like a bundle.
        moves = _moves(folder, sorted(new, key="plan.json".__eq__), change.gone())
        (stage / JOURNAL).write_text(json.dumps(moves), encoding="utf-8")
        flush(stage, [JOURNAL, *(f"{NEW}/{name}" for name in new)])
        with held():
            _make(folder, stage, moves)
            # A process that dies while it removes the stage has nothing to undo.
            with contextlib.suppress(OSError):
                (stage / JOURNAL).unlink()
            for parent in {PurePosixPath(name).parent for name in change.gone()}:
                with contextlib.suppress(OSError):  # the user may have files there
                    (folder / parent).rmdir()
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    sync_folder(folder)


def _moves(folder: Path, new: Sequence[str], gone: Sequence[str]) -> list[Move]:
    """All moves in order: links that stand for folders and folders to make, then files."""
    moves: dict[str, bool] = {}
    for name in (*new, *gone):
        path = PurePosixPath(name)
        for part in (*reversed(path.parents[:-1]), path):
            is_there = os.path.lexists(folder / part)
            is_link = (folder / part).is_symlink()
            if part == path or is_link or (name in new and not is_there):
                is_below = any(str(parent) in moves for parent in part.parents)
                moves.setdefault(str(part), is_there and not is_below)
    return [(name, was) for name, was in moves.items() if was or name not in gone]


def _make(folder: Path, stage: Path, moves: Sequence[Move]) -> None:
    try:
        for number, (name, is_there) in enumerate(moves):
            path, source = folder / name, stage / NEW / name
            if is_there:
                _set_aside(path, stage / f"old-{number}", is_replaced=source.is_file())
            if source.is_dir():
                path.mkdir()
            elif source.exists():
                os.replace(source, path)
    except BaseException:
        _undo(folder, stage, moves)
        raise


def _set_aside(path: Path, old: Path, is_replaced: bool) -> None:
    """Moves an old file away; if a new one replaces it, its place is never empty meanwhile."""
    if is_replaced and not path.is_symlink():
        with contextlib.suppress(OSError):  # there may be no hard links here
            os.link(path, old)
            return
    os.rename(path, old)


def _undo(folder: Path, stage: Path, moves: Sequence[Move]) -> None:
    for number, (name, was_there) in reversed([*enumerate(moves)]):
        path, old = folder / name, stage / f"old-{number}"
        is_made = os.path.lexists(old) if was_there else not (stage / NEW / name).is_file()
        if not is_made or path.parent.is_symlink():
            continue
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            elif not was_there:
                path.unlink()
            if was_there:
                os.replace(old, path)


def _read_journal(stage: Path) -> list[Move]:
    """Only names that a build could write: the folder may come from an untrusted source."""
    try:
        moves = json.loads((stage / JOURNAL).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    is_valid = isinstance(moves, list) and all(
        isinstance(m, list) and len(m) == 2 and is_own_name(m[0]) and type(m[1]) is bool
        for m in moves
    )
    return [(name, was_there) for name, was_there in moves] if is_valid else []
