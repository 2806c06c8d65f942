"""The files of the project, for tests that check all of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from adapters import ROOT


def tracked_files() -> list[Path]:
    """What git tracks; in an unpacked archive, everything but what tools have left there."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
        )
        paths = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    else:
        left = re.compile(r"/\.venv/|/\.cache/|/__pycache__/|/\.\w+_cache/|/\.hypothesis/|/\.git/")
        paths = [path for path in ROOT.rglob("*") if not left.search(path.as_posix())]
    return [path for path in paths if path.is_file()]
