"""Indices and labels out of range in JavaScript: reported and undone as in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from building import build
from hostile_bundles import as_web
from range_model import line_of, write_model
from web_stacks import build_web, run_job, run_node

AFTER = "; the model is as it was before"


@pytest.fixture(scope="module", params=["node", "chrome"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("ranges")
    return run_job(request.param, build_web(write_model(folder), folder / "bundle"), "ranges")


def test_calls(seen: Any) -> None:
    assert seen["moved"] == {
        "fine": "fine",
        "id": "range: `moved.x` holds 9 at 1, not within -1 to 8",
        "label": "range: `moved.y` holds 0 at 0, not within 1 to 10 (or -99)",
    }
    assert seen["tail"] == [5, 5, 5, 6, 6, 6, 7, 7, 7]
    places = {
        "append": ("a position in `cache[used +: 1]` outside 0 to 7", "cache[used +: 1]"),
        "read": ("a position in `cache[used]` outside 0 to 7", "entry read"),
        "both": ("a position in `cache[used]` outside 0 to 7", "cache[used] := x"),
        "pair": ("an id in `gather(tok.w, a + b)` outside 0 to 9", "entry pair"),
        "hot": ("an id in `one_hot(i32(a), V)` outside 0 to 9", "entry hot"),
        "two": ("an id in `gather(cache, i32(b))` outside 0 to 7", "gather(cache"),
    }
    for entry, (what, line) in places.items():
        assert seen[entry] == [f"range: `{entry}` has {what}, at {line_of(line)}{AFTER}", True]
    assert seen["outputs"] == ["rows"]


def test_training(seen: Any) -> None:
    label = "a label in `cross_entropy(out(tok(ids)), y + offset)` outside 0 to 9"
    where = f"{label}, at {line_of('cross_entropy(out(tok(ids))')}{AFTER}"
    assert seen["step"] == [f"range: `train` at step 1 has {where}", True]
    assert seen["fit"] == f"range: `train` at step 18 has {where}"
    assert (seen["steps"], seen["asIfNeverMade"]) == (17, True)


def test_numbers_that_count_from_one(seen: Any) -> None:
    hint = "; they seem to count from 1, but wgcc counts from 0: subtract 1"
    assert seen["fromOne"] == f"range: `train.ids` holds 10 at 3, not within 0 to 9{hint}"
    assert seen["notFromOne"] == "range: `train.ids` holds 10 at 3, not within 0 to 9"


def test_a_bundle_without_a_seal_is_checked_and_taken(tmp_path: Path) -> None:
    bundle = build(write_model(tmp_path), tmp_path / "bundle")
    assert run_node("hostile.mjs", data=[as_web(bundle)]) == ["the GPU was asked for"]
