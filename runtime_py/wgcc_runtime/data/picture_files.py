"""Finds the picture files of a source, the class of each, and their pixels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.source import Source
from wgcc_runtime.errors import WgccError
from wgcc_runtime.regular_files import open_regular

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
# While it is read, a pixel takes 40 bytes.
MOST_PIXELS = 1 << 26
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class PictureFile:
    """`label` is the name of its class, or "" if nothing says it."""

    path: Path
    label: str


def is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def find_pictures(places: Sequence[Path], source: Source) -> list[PictureFile]:
    """Files of a folder, of its folders, or as given; sorted, without hidden ones."""
    if len(places) == 1 and places[0].is_dir():
        files = _in_folder(places[0], source)
    else:
        files = [PictureFile(path, _label(path)) for path in sorted(places)]
    if not files:
        raise source.refuse("no-pictures")
    return files


def _in_folder(folder: Path, source: Source) -> list[PictureFile]:
    inside = _visible(folder)
    folders = [path for path in inside if path.is_dir() and any(map(is_picture, _visible(path)))]
    if folders:
        candidates = [(path, inner.name) for inner in folders for path in _visible(inner)]
    else:
        candidates = [(path, _label(path)) for path in inside if path.is_file()]
    pictures = [PictureFile(path, label) for path, label in candidates if is_picture(path)]
    others = len(candidates) - len(pictures)
    if others:
        source.note("no-pictures", count=others)
    return pictures


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _label(path: Path) -> str:
    """The letters that the file's name begins with."""
    letters = _LETTERS.match(path.name)
    return letters[0] if letters else ""


def read_pixels(path: Path) -> Array:
    """Height x width x RGBA, as float64 from 0 to 255, turned as the camera says."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        text = "reading pictures needs Pillow: pip install pillow"
        raise WgccError("data", text, str(path)) from None
    broken = (OSError, ValueError, SyntaxError, UnidentifiedImageError)
    try:
        # Only these: Pillow would run another program for some kinds of files.
        with _open(path) as file, Image.open(file, formats=FORMATS) as opened:
            _check_size(path, *opened.size)
            image = ImageOps.exif_transpose(opened)
            if image.mode.startswith("I;16"):
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            return np.asarray(image.convert("RGBA"), np.float64)
    except (*broken, Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise WgccError("data", f"{path}: this picture cannot be read", str(path)) from None


def _open(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        text = f"cannot read {path}: {error.strerror or error}"
        raise WgccError("data", text, str(path)) from None


def _check_size(path: Path, width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        text = f"it has {width} x {height} pixels; at most {MOST_PIXELS:,} are read"
        raise WgccError("data", f"cannot read {path}: {text}", str(path))
