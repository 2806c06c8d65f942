"""People's data in JavaScript: what a model does with the preparation that it keeps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from adapters import ROOT
from web_stacks import build_web, run_job


def test_a_preparation_scales_calls_and_is_kept_in_checkpoints(tmp_path: Path) -> None:
    bundle = build_web(ROOT / "tests" / "golden" / "regression.wg", tmp_path / "bundle")
    seen = run_job("node", bundle, "prepared")
    assert seen["untouched"] == [None, None]
    assert seen["isSet"]
    plain = np.array(seen["plain"], np.float64)
    assert seen["read"] == (plain * 0.1 + 200).astype(np.float32).tolist()
    assert seen["shape"] == [2, 1]
    assert seen["losses"][0] == seen["losses"][1]
    assert seen["restored"] == seen["loaded"] == seen["preparation"]
    assert seen["emptied"] is None
    assert seen["classes"] == ["a"]
    assert "has a damaged preparation" in seen["refused"]
    text = (
        '{"inputs":{"x":{"columns":["größe","b","c"],"deviation":[2,0,1e+21],"kind":"columns",'
        '"mean":[5,1e-7,1e+21]},"y":{"columns":["price"],"deviation":[0.1],"kind":"columns",'
        '"mean":[200]}},"missing":"drop","target":"y","version":1}'
    )
    escaped = json.dumps(text, ensure_ascii=False)
    assert seen["header"] == f'{{"__metadata__":{{"preparation":{escaped},'
