"""A bundle's served page without a network: with the offered service worker, and without."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from web_stacks import build_web, run_node


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "golden" / "regression.wg"
    return build_web(source, tmp_path_factory.mktemp("offline") / "bundle")


@pytest.fixture(scope="module")
def seen(bundle: Path) -> Any:
    return run_node("offline.mjs", str(bundle))


def test_training_works_after_the_network_is_gone(seen: Any) -> None:
    """Without a service worker: what training needs was fetched before."""
    assert seen["loaded"]["step"] == "20"
    assert seen["loaded"]["workers"] == 0, "nothing is registered unless a person asks for it"
    assert seen["loaded"]["button"] == "Keep for use offline"


def test_a_kept_page_opens_and_trains_without_a_network(seen: Any) -> None:
    assert "works without a network now" in seen["kept"]["status"]
    assert seen["reopened"] == {"step": "20", "button": "Forget offline copy", "worker": "number"}
    assert seen["forgotten"] == {"caches": [], "workers": 0}
    assert [text for text in seen["problems"] if "Failed to load resource" not in text] == []


def test_its_list_has_every_file_that_pages_load(bundle: Path, seen: Any) -> None:
    text = (bundle / "offline.js").read_text(encoding="utf-8")
    listed = json.loads(re.search(r"FILES\s*=\s*(\[.*?\])", text, re.DOTALL)[1])  # type: ignore[index]
    assert all((bundle / name).exists() for name in listed)
    assert {name.removeprefix("/") for name in seen["fetched"]} <= {*listed, "offline.js"}
    assert not {"index.html", "plan.json", "offline.js"} & set(listed)


def test_a_part_that_cannot_be_fetched_is_told_in_words(seen: Any) -> None:
    assert "is the network gone?" in seen["missing"]


def test_a_build_replaces_its_own_service_worker_alone(bundle: Path) -> None:
    from wgcc.compiler import compile_file
    from wgcc.errors import WgError

    source = ROOT / "tests" / "golden" / "regression.wg"
    build_web(source, bundle)
    text = (bundle / "offline.js").read_text(encoding="utf-8")
    (bundle / "offline.js").write_text("// mine", encoding="utf-8")
    with pytest.raises(WgError, match=r"offline\.js was not written by a build"):
        compile_file(source).write(bundle)
    (bundle / "offline.js").write_text(text, encoding="utf-8")
