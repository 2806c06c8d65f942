"""Decoding with a cache of keys and values, token by token or in chunks, equals the forward pass.

The GPT is that of the training curves, with its parameters after training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import ROOT
from building import build

CURVES = ROOT / "tests" / "curves"
TOKENS, CHUNK, VOCABULARY = 64, 16, 23
# How much the same sums may differ when added in another order.
CLOSE = 1e-5


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(CURVES / "gpt.wg", tmp_path_factory.mktemp("gpt") / "bundle")


def test_cached_decoding_equals_the_full_forward_pass(bundle: Path, device: Any) -> None:
    model = wgcc_runtime.load(bundle, device=device)
    record, prefix = load_file(CURVES / "gpt.safetensors"), "end.f32/train/"
    trained = {k.removeprefix(prefix): v for k, v in record.items() if k.startswith(prefix)}
    model.load_params({name: array.astype(np.float32) for name, array in trained.items()})
    ids = np.random.default_rng(3).integers(0, VOCABULARY, TOKENS).astype(np.int32)
    at_once = model.score(ids=ids[None])["scores"][0]

    one_by_one = np.concatenate([model.decode(ids=ids[i : i + 1])["scores"] for i in range(TOKENS)])
    assert difference(one_by_one, at_once) <= CLOSE

    model.call("forget")
    chunks = range(0, TOKENS, CHUNK)
    in_chunks = np.concatenate([model.prefill(ids=ids[i : i + CHUNK])["scores"] for i in chunks])
    assert difference(in_chunks, at_once) <= CLOSE

    # A chunk of the prompt, then token by token, overwriting the previous contents of the cache.
    model.call("forget")
    first = model.prefill(ids=ids[:CHUNK])["scores"]
    rest = [model.decode(ids=ids[i : i + 1])["scores"] for i in range(CHUNK, 2 * CHUNK)]
    assert difference(np.concatenate([first, *rest]), at_once[: 2 * CHUNK]) <= CLOSE


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
    return float((np.abs(found - wanted) / (1 + np.abs(wanted))).max())
