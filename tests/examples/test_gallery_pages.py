"""The pages of the gallery learn in headless Chromium what their READMEs say."""

from __future__ import annotations

import runpy
from pathlib import Path

from adapters import ROOT
from web_stacks import run_node

NAMES = ("snake", "cartpole", "siren", "diffusion", "plane")


def test_gallery_pages_learn(tmp_path: Path) -> None:
    pages = runpy.run_path(str(ROOT / "examples" / "pages.py"))
    assert pages["main"]([*NAMES, "-o", str(tmp_path)]) == 0
    seen = run_node("gallery.mjs", str(tmp_path))
    assert tuple(seen) == NAMES
    for name, page in seen.items():
        assert page["problems"] == [], name
        assert page["longest"]["ms"] < 50, f"{name}: the page is blocked: {page['longest']}"
        assert page["isRedrawn"] and not page["isWide"], name
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
