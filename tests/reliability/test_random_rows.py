"""Random entries over rows: in parts they give what the same text gives for all rows at once.

`python tests/reliability rows 3000` runs many more.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from random_rows.generate import Program, generate
from random_rows.judge import Wrong, inputs_of, judge
from web_stacks import as_lists, build_web, run_job
from wgcc.compiler import compile_file
from wgcc.passes import row_kinds
from wgcc_runtime import WgccError

SEEDS = range(60)
# What the number of rows may do to a sum, in bundles.
ENTRIES = {
    "dollars": "-> (o: f32) = sum(w) * 0.01",
    "mean_of": "-> (o: f32) = mean(x) + 1.0",
    "by_rows": "-> (o: f32) = 2.0 * sum(w) / B",
    "scaled": "-> (o: f32) = mean(w) * B",
    "loss": "-> (o: f32) = cross_entropy(x, y) * B",
    "count": "-> (o: f32) = mean(f32(y == y)) * B",
    "counted": "-> (o: f32) = sum(w / sum(ones(f32[B])))",
    "rooted": "-> (o: f32[B]) = w * B",
    "columns": "-> (o: f32[3]) = sum(x, axis = 0) / B",
}
REFUSED = {
    4: {"rooted"},
    # Here a hundredth may be meant as one over the number of rows.
    100: {"rooted", "dollars"},
}
BUNDLED = """dim B = {rows}
model M {{
  param g: f32 = 1.0
{entries}
}}
"""


def counts_of(program: Program) -> tuple[int, ...]:
    """Fewer rows, more, and several parts with a rest."""
    return max(1, program.rows - 1), program.rows + 1, 2 * program.rows + 3


def test_parts_give_what_the_whole_gives() -> None:
    seen = Counter(judge(program, counts_of(program)) for program in map(generate, SEEDS))
    assert seen["right"] >= len(SEEDS) / 4, seen
    assert seen["refused"] >= len(SEEDS) / 4, seen
    assert seen["invalid"] <= len(SEEDS) / 10, seen


def test_wrong_proofs_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the powers of numbers, a sum divided by the number of rows is a sum."""
    monkeypatch.setattr(row_kinds, "_note_power", lambda *_: None)
    with pytest.raises(Wrong):
        for program in map(generate, SEEDS):
            judge(program, counts_of(program))


def bundled(folder: Path, rows: int, calls: int) -> tuple[Path, Path]:
    """The bundle for `rows` rows, and the same text built for as many as calls have."""
    entries = "\n".join(
        f"  entry {name}(x: f32[B, 3], w: f32[B], y: i32[B]) {body.replace('sum(', 'g * sum(', 1)}"
        for name, body in ENTRIES.items()
    )
    path = folder / "m.wg"
    path.write_text(BUNDLED.format(rows=rows, entries=entries), encoding="utf-8")
    compile_file(path, sizes={"B": calls}).write(folder / "whole")
    return build_web(path, folder / "parts"), folder / "whole"


@pytest.mark.parametrize("rows", REFUSED)
def test_bundles(rows: int, tmp_path: Path) -> None:
    """The same in Python and in Node."""
    parts, whole = bundled(tmp_path, rows, 2 * rows + 1)
    inputs = inputs_of(Program("", rows, 3), 2 * rows + 1)
    given = {"x": inputs["x"].astype(np.float32), "w": inputs["w"].astype(np.float32),
             "y": inputs["y"].astype(np.int32)}  # fmt: skip
    seen = run_job("node", parts, "row_entries", {"inputs": as_lists(given), "names": [*ENTRIES]})
    with (
        wgcc_runtime.load(parts, device="wasm") as model,
        wgcc_runtime.load(whole, device="wasm") as other,
    ):
        for name in ENTRIES:
            if name in REFUSED[rows]:
                with pytest.raises(WgccError, match="cannot run on other numbers of rows") as error:
                    model.call(name, **given)
                assert seen[name] == {"code": error.value.code}
                continue
            wanted = other.call(name, **given)["o"]
            np.testing.assert_allclose(
                model.call(name, **given)["o"], wanted, 2e-5, 2e-5, err_msg=name
            )
            np.testing.assert_allclose(seen[name]["o"], np.ravel(wanted), 2e-5, 2e-5, err_msg=name)


def test_a_seed_gives_one_program() -> None:
    assert generate(7) == generate(7) != generate(8)
