"""Replaces a folder at once: a new one (the stage) is written beside it, then the two are swapped.

A process that dies at any moment leaves the complete old or the complete new folder. Where a folder
cannot be swapped (a mount point, the working folder, no hard links), see `moves`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

from wgcc.bundle.content import Content, Files, is_content, parts_of
from wgcc.bundle.file_system import exchange, flush
from wgcc.bundle.moves import NEW, Moves, undo_moves
from wgcc.bundle.owned import is_plain
from wgcc_runtime.interrupts import held
from wgcc_runtime.replace_file import sync_folder

Kept = Mapping[str, str]

# Errors that mean "not possible with this folder or file system", rather than a failure.
_CANNOT = {
    errno.EACCES, errno.EBUSY, errno.EINVAL, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP,
    errno.EOPNOTSUPP, errno.EPERM, errno.EROFS, errno.EXDEV,
}  # fmt: skip
# File systems allow 255 bytes; the rest is for the suffix that marks a stage.
LONGEST_LABEL = 200
_MARK = r"wgcc-(\d+)-[0-9a-f]{8}"


class _CannotError(Exception):
    """This folder cannot be swapped."""


def replace_files(files: Files, folder: Path, own: Collection[str], kept: Kept) -> None:
    """Afterwards `folder` holds `files`, no others of `own`, and all other files as before.

    `kept` maps names of files to the names under which their old content is kept.
    """
    folder = _place(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not kept and _is_done(files, folder, own):
        return
    try:
        _exchange_whole(files, folder, own, kept)
    except _CannotError:
        _replace_each(files, folder, own, kept)


def recover(folder: Path) -> None:
    """Repairs what a process left behind that died while it replaced files."""
    from wgcc_runtime.replace_file import is_left_behind

    folder = _place(folder)
    beside = re.compile(rf"\.{re.escape(_label(folder))}\.{_MARK}\.(tmp|old)")
    inside = re.compile(rf"\.{_MARK}\.(tmp)")
    for place, pattern in ((folder.parent, beside), (folder, inside)):
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            found = pattern.fullmatch(path.name)
            if found is None or not is_left_behind(path, found[1]):
                continue
            if place == folder:
                undo_moves(folder, path)
            if found[2] == "old" and not os.path.lexists(folder):
                os.rename(path, folder)
            else:
                shutil.rmtree(path, ignore_errors=True)


def _place(folder: Path) -> Path:
    """The path with the links of its parents resolved."""
    if folder.name in ("", ".."):
        return folder.resolve()
    return folder.parent.resolve() / folder.name


def _is_done(files: Files, folder: Path, own: Collection[str]) -> bool:
    gone = (name for name in own if name not in files)
    return all(_holds(folder, name, data) for name, data in files.items()) and not any(
        os.path.lexists(folder / name) for name in gone
    )


def _holds(folder: Path, name: str, content: Content) -> bool:
    return is_plain(folder, name) and is_content(folder / name, content)


# ---- swapping the whole folder


def _exchange_whole(files: Files, folder: Path, own: Collection[str], kept: Kept) -> None:
    if not folder.name or os.path.ismount(folder) or _is_in_use(folder):
        raise _CannotError
    stage = _make_stage(folder)
    try:
        for name, data in files.items():
            _put(stage, name, data, folder)
        linked = _link_others(folder, stage, {*own, *files}, kept)
        flush(stage, files)
        with held():
            _swap(stage, folder)
            _catch_up(stage, folder, linked, {*own, *files})
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


def _make_stage(folder: Path) -> Path:
    stage = folder.with_name(f".{_label(folder)}.{_mark()}.tmp")
    with _cannot():
        stage.mkdir()
        if folder.exists():
            shutil.copymode(folder, stage)
    return stage


@contextlib.contextmanager
def _cannot() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _CANNOT:
            raise _CannotError from error
        raise


def _put(stage: Path, name: str, data: Content, folder: Path) -> None:
    """Writes a file, or hard-links an old one with the same content."""
    target = stage / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if _holds(folder, name, data):
        with contextlib.suppress(OSError):
            os.link(folder / name, target)
            return
    with open(target, "xb") as stream:
        stream.writelines(parts_of(data))


def _link_others(
    folder: Path, stage: Path, taken: Collection[str], kept: Kept
) -> dict[str, tuple[int, int]]:
    """Hard-links all other files of the folder into the stage, so that they are never missing.

    Returns the identity of each linked file, by name.
    """
    linked = {}
    with _cannot():
        for old, new in kept.items():
            os.link(folder / old, stage / new)
        for entry in _others(folder, taken):
            name = _name(entry, folder)
            _link(entry, stage / name)
            linked[name] = _identity(Path(entry.path))
    return linked


def _others(folder: Path, taken: Collection[str]) -> Iterator[os.DirEntry[str]]:
    """All entries that are not taken, folders before what is in them; no link is followed."""
    parents = {str(parent) for name in taken for parent in PurePosixPath(name).parents}
    pending = [folder] if folder.is_dir() else []
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name, is_folder = _name(entry, folder), entry.is_dir(follow_symlinks=False)
                # A link with the name of a bundle's own file or folder is replaced with them.
                if name not in taken and name not in parents:
                    yield entry
                if is_folder and name not in taken:
                    pending.append(Path(entry.path))


def _name(entry: os.DirEntry[str], folder: Path) -> str:
    return Path(entry.path).relative_to(folder).as_posix()


def _link(entry: os.DirEntry[str], target: Path) -> None:
    if entry.is_dir(follow_symlinks=False):
        target.mkdir()
        shutil.copymode(entry.path, target)
    elif entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)
    else:
        os.link(entry.path, target)


def _identity(path: Path) -> tuple[int, int]:
    facts = path.lstat()
    return facts.st_dev, facts.st_ino


def _swap(stage: Path, folder: Path) -> None:
    """Swaps the two: the stage becomes the folder, and the old folder becomes the stage."""
    if not os.path.lexists(folder):
        os.rename(stage, folder)
        return
    if exchange(stage, folder):
        return
    old = stage.with_suffix(".old")
    with _cannot():
        os.rename(folder, old)
        # A process that dies here leaves the old folder under this name; `recover` restores it.
        try:
            os.rename(stage, folder)
        except BaseException:
            os.rename(old, folder)
            raise
    os.rename(old, stage)


def _catch_up(
    old: Path, folder: Path, linked: Mapping[str, tuple[int, int]], taken: Collection[str]
) -> None:
    """Moves what another process saved into the old folder meanwhile, such as a checkpoint."""
    for entry in _others(old, taken):
        name = _name(entry, old)
        target = folder / name
        if entry.is_dir(follow_symlinks=False):
            target.mkdir(exist_ok=True)
        elif linked.get(name) != _identity(Path(entry.path)):
            os.replace(entry.path, target)


# ---- file by file


def _replace_each(files: Files, folder: Path, own: Collection[str], kept: Kept) -> None:
    folder.mkdir(exist_ok=True)
    stage = folder / f".{_mark()}.tmp"
    stage.mkdir()
    try:
        new = [name for name, data in files.items() if not _holds(folder, name, data)]
        for name in new:
            _put(stage / NEW, name, files[name], folder)
        for old, name in kept.items():
            _put(stage / NEW, name, (folder / old).read_bytes(), folder)
        flush(stage, [f"{NEW}/{name}" for name in (*new, *kept.values())])
        gone = [name for name in own if name not in files]
        # The plan is replaced last, so that a mixture of two bundles never looks like a bundle.
        with held():
            Moves(folder, stage).make([*kept.values(), *sorted(new, key="plan.json".__eq__)], gone)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    sync_folder(folder)


def _label(folder: Path) -> str:
    """The folder's name, or its digest if the name is too long to add a suffix."""
    name = folder.name
    is_short = len(os.fsencode(name)) <= LONGEST_LABEL
    return name if is_short else hashlib.sha256(os.fsencode(name)).hexdigest()


def _mark() -> str:
    """The suffix of a stage; it names the process that made it."""
    return f"wgcc-{os.getpid()}-{secrets.token_hex(4)}"
