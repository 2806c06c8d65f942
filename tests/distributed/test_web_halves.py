"""Training steps in two halves in JavaScript: the same step, and Python's gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from test_exchange import ALL, batches
from web_stacks import as_lists, build_web, run_job


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("halves")
    (folder / "model.wg").write_text(ALL, encoding="utf-8")
    return build_web(folder / "model.wg", folder / "bundle")


@pytest.mark.parametrize("stack", ["node", "node-twin", "deno-twin"])
def test_halves_are_the_step(stack: str, bundle: Path) -> None:
    name, _, twin = stack.partition("-")
    given = [{key: value.ravel() for key, value in batch.items()} for batch in batches(3)]
    job = {"batches": [as_lists(batch) for batch in given], "isTwin": bool(twin)}
    seen = run_job(name, bundle, "halves", job)
    assert seen["same"] == [[True, True, True]] * 3 and seen["isRestored"]
    assert seen["steps"] == {"train": 3}
    assert seen["refused"] == {
        "apply": "order", "undo": "order", "entry": "name", "shape": "shape", "nan": "nan",
    }  # fmt: skip
    with wgcc_runtime.load(bundle, device="wasm") as model:
        expected = model.gradients(batches(1)[0])
    found = np.array(seen["first"], np.float32)
    if twin:
        assert found.tobytes() == expected.tobytes()
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-6)
