"""Calls with any number of rows, in Python and from the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import wgcc_runtime
from rows_model import SIZES, data, expected, write_model
from wgcc.cli.group import cli
from wgcc.compiler import compile_file
from wgcc.lazy_numpy import Array
from wgcc_runtime import WgccError, batches


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    compile_file(write_model(folder)).write(folder / "bundle")
    return folder / "bundle"


def test_any_number_of_rows(bundle: Path, machine: Any) -> None:
    with wgcc_runtime.load(bundle, device=machine) as model:
        for rows in SIZES:
            given = data(rows)
            wanted = expected(model, given)
            found = {"predict": model.predict(x=given["x"], scale=2.0), "eval": model.eval(**given)}
            for entry, outputs in wanted.items():
                assert found[entry].keys() == outputs.keys()
                for name, value in outputs.items():
                    array = found[entry][name]
                    assert array.shape == np.shape(value), (rows, entry, name)
                    assert array.dtype == (np.int32 if name in ("best", "right") else np.float32)
                    np.testing.assert_allclose(array, value, 2e-5, 2e-5, err_msg=f"{rows} {name}")


@pytest.fixture(scope="module")
def model(bundle: Path) -> Any:
    with wgcc_runtime.load(bundle, device="wasm") as model:
        yield model


def refusal(call: Any) -> str:
    with pytest.raises(WgccError) as caught:
        call()
    assert caught.value.code == "shape"
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return caught.value.message


def test_what_is_refused_says_why(model: Any) -> None:
    given = data(5)
    cannot = "has 5 rows, not 8, and the entry cannot run on other numbers of rows"
    build_it = "Build it for 5: wgcc build MODEL --set B=5"
    why = "rows mix in `x - mean(x, axis = 0)` (net.wg:25)"
    assert refusal(lambda: model.mixed(x=given["x"])) == f"mixed: `x` {cannot}: {why}. {build_it}"
    assert refusal(lambda: model.train(**given)) == f"train: `x` {cannot}: it trains. {build_it}"
    few = "train: 5 rows are fewer than the batch of 8"
    assert refusal(lambda: model.fit(given, steps=1)).startswith(few)
    differ = {**given, "label": given["label"][:4]}
    assert "rows differ: `x` 5, `label` 4" in refusal(lambda: model.eval(**differ))
    assert "`x` has no rows" in refusal(lambda: model.predict(x=given["x"][:0], scale=1.0))


def test_values_of_other_numbers_of_rows_are_checked(model: Any) -> None:
    given = data(5)
    with pytest.raises(WgccError) as caught:
        model.eval(x=given["x"], label=given["label"] + 7)
    assert caught.value.code == "range"


def test_evaluation_uses_every_row(model: Any) -> None:
    given = data(21)
    history = model.fit(given, steps=4, every=2, eval=given)
    for report in history.reports:
        assert report.eval.keys() == {"loss", "hits", "size"}
    whole = expected_after(model, given)
    assert history.reports[-1].eval["loss"] == pytest.approx(whole, rel=1e-5)
    few = model.fit(given, steps=2, every=2, eval=data(3)).reports[-1].eval
    assert few["loss"] == pytest.approx(float(model.eval(**data(3))["loss"]))


def test_commands_take_any_number_of_rows(bundle: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", **data(21))
    np.savez(tmp_path / "five.npz", **data(5))
    run = ["run", bundle, "eval", "-i", tmp_path / "five.npz", "--device", "wasm", "--json"]
    found = json.loads(wgcc(*run).stdout)
    with wgcc_runtime.load(bundle, device="wasm") as model:
        wanted = expected(model, data(5))["eval"]
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
    options = ["--eval", tmp_path / "five.npz", "--steps", 2, "--every", 2, "--device", "wasm"]
    out = tmp_path / "out.safetensors"
    trained = json.loads(
        wgcc("train", bundle, tmp_path / "d.npz", *options, "--out", out, "--json").stdout
    )
    with wgcc_runtime.load(bundle, device="wasm", weights=out) as model:
        assert trained["eval_loss"] == pytest.approx(float(model.eval(**data(5))["loss"]))
    refused = wgcc("train", bundle, tmp_path / "five.npz", "--device", "wasm", "--out", out)
    assert refused.exit_code != 0
    assert "5 rows, but the model takes batches of 8: rebuild with --set B=5" in refused.stderr


def wgcc(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def expected_after(model: Any, given: dict[str, Array]) -> float:
    """One row at a time."""
    rows = range(len(given["x"]))
    each = [model.eval(**{n: a[i : i + 1] for n, a in given.items()})["loss"] for i in rows]
    return float(np.mean(each))


def test_evaluation_that_cannot_use_every_row_is_refused_at_once(bundle: Path) -> None:
    with wgcc_runtime.load(bundle, device="wasm") as model:
        entry = model.plan.entries["mixed"]
        model.plan.entries["eval"] = replace(entry, name="mixed")  # type: ignore[index]
        text = refusal(lambda: model.fit(data(21), steps=9, eval={"x": data(21)["x"]}))
        assert "cannot run on other numbers of rows" in text
        assert model.steps_done == 0


@pytest.mark.parametrize("row", [0, 7, 8, 12])
@pytest.mark.parametrize("large", [False, True])
def test_positions_are_those_of_the_call(
    row: int, large: bool, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong number in any part, the last and filled-up one too; arrays are checked piecewise."""
    if large:
        monkeypatch.setattr(batches, "CONVERT_BYTES", 24)
    x, label = np.zeros((13, 3), np.float32), np.zeros(13, np.int64)
    bad, wrong, huge = x.copy(), label.copy(), label.copy()
    bad[row, 1], wrong[row], huge[row] = np.nan, 5, 2**40
    with wgcc_runtime.load(bundle, device="wasm") as model:
        for given, text in (
            ({"x": bad, "label": label}, rf"`x` holds nan at \[{row}, 1\]"),
            ({"x": x, "label": wrong}, rf"`label` holds 5 at \[{row}\]"),
            ({"x": x, "label": huge}, rf"`label` holds {2**40} at \[{row}\]"),
        ):
            with pytest.raises(WgccError, match=text):
                model.call("eval", **given)
            with pytest.raises(WgccError, match=text):
                model.map("eval", **given)


def test_positions_of_rows_that_mix(bundle: Path) -> None:
    x = np.zeros((16, 3), np.float32)
    x[9, 2] = np.inf
    where = pytest.raises(WgccError, match=r"`x` holds inf at \[9, 2\]")
    with wgcc_runtime.load(bundle, device="wasm") as model, where:
        model.map("mixed", x=x)


def test_positions_in_shuffled_data(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CONVERT_BYTES", 0)
    x = np.zeros((24, 3), np.float32)
    x[17, 2] = np.nan
    where = pytest.raises(WgccError, match=r"`x` holds nan at \[17, 2\]")
    with wgcc_runtime.load(bundle, device="wasm") as model, where:
        model.fit({"x": x, "label": np.zeros(24, np.int32)}, steps=3)
