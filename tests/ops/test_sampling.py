"""`sample` on both adapters: draws follow the probabilities; limits, seeds and ties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from judging import SIGMAS, Array, chi_square, correlation
from kernel_families import family
from tint_compiler import compile_all
from wgcc.access.model import access_of
from wgcc.compiler import compile_file
from wgcc.schedule.kernels.context import tree_of

ROWS = 4096
SCORES = np.array([2.0, 0.0, 1.0, 2.0, -1.0, 1.5, -30.0], np.float32)

MODEL = f"""
dim N = {ROWS}, V = {len(SCORES)}
model Draws {{
  seed = 4
  fn rows(z: f32[V]) -> f32[N, V] = zeros(f32[N, V]) + z
  entry plain(z: f32[V]) -> (ids: i32[N]) = sample(rows(z))
  entry cooled(z: f32[V], t: f32) -> (ids: i32[N]) = sample(rows(z), temperature = t)
  entry best(z: f32[V]) -> (ids: i32[N]) = sample(rows(z), top_k = 3)
  entry likely(z: f32[V], p: f32) -> (ids: i32[N]) = sample(rows(z), top_p = p)
  entry both(z: f32[V]) -> (ids: i32[N]) = sample(rows(z), top_k = 4, top_p = 0.7)
  entry seeded(z: f32[V], s: u32) -> (ids: i32[N]) = sample(rows(z), seed = s)
  entry twice(z: f32[V]) -> (a: i32[N], b: i32[N]) {{
    return sample(rows(z)), sample(rows(z))
  }}
}}
"""

LARGE = """
dim V = 32000
model Large {
  entry pick(z: f32[V]) -> (id: i32) = sample(z, temperature = 0.7, top_k = 50, top_p = 0.9)
}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("draws")
    (folder / "draws.wg").write_text(MODEL, encoding="utf-8")
    return build(folder / "draws.wg", folder / "bundle")


@pytest.fixture
def model(bundle: Path, device: Any) -> wgcc_runtime.Model:
    return wgcc_runtime.load(bundle, device=device)


def softmax(z: Array) -> Array:
    weights = np.exp(z.astype(np.float64) - z.max())
    return np.asarray(weights / weights.sum())


def kept(probabilities: Array, *places: int) -> Array:
    found = np.zeros_like(probabilities)
    found[list(places)] = probabilities[list(places)]
    return np.asarray(found / found.sum())


def fit(ids: Array, probabilities: Array) -> float:
    counts = np.bincount(ids, minlength=len(probabilities))
    assert len(counts) == len(probabilities), "a class that does not exist"
    return chi_square(counts, probabilities * len(ids))


def test_draws_follow_the_probabilities(model: wgcc_runtime.Model) -> None:
    for _ in range(3):
        assert fit(model.plain(z=SCORES)["ids"], softmax(SCORES)) < SIGMAS


@pytest.mark.parametrize("heat", [0.5, 1.0, 3.0])
def test_temperature(model: wgcc_runtime.Model, heat: float) -> None:
    assert fit(model.cooled(z=SCORES, t=heat)["ids"], softmax(SCORES / heat)) < SIGMAS


def test_no_temperature_takes_the_largest(model: wgcc_runtime.Model) -> None:
    scores = SCORES.copy()
    scores[3] = 2.5
    assert set(model.cooled(z=scores, t=0.0)["ids"]) == {3}


def test_top_k(model: wgcc_runtime.Model) -> None:
    assert fit(model.best(z=SCORES)["ids"], kept(softmax(SCORES), 0, 3, 5)) < SIGMAS
    # Of equal ones the first are kept.
    tied = np.array([1, 1, 1, 1, 5, 1, 1], np.float32)
    assert fit(model.best(z=tied)["ids"], kept(softmax(tied), 4, 0, 1)) < SIGMAS
    zeros = np.array([-0.0, 0.0, -1, 0.0, -0.0, -1, -1], np.float32)
    assert fit(model.best(z=zeros)["ids"], kept(softmax(zeros), 0, 1, 3)) < SIGMAS


def test_top_p(model: wgcc_runtime.Model) -> None:
    # The probabilities in order are 0.32, 0.32, 0.19, 0.12, 0.04, 0.02, 0.
    p = softmax(SCORES)
    for mass, places in (
        (0.01, (0,)),
        (0.4, (0, 3)),
        (0.7, (0, 3, 5)),
        (0.999, (0, 3, 5, 2, 1, 4)),
    ):
        assert fit(model.likely(z=SCORES, p=mass)["ids"], kept(p, *places)) < SIGMAS, mass
    assert fit(model.likely(z=SCORES, p=0.0)["ids"], kept(p, 0)) < SIGMAS
    equal = np.zeros(7, np.float32)
    assert fit(model.likely(z=equal, p=0.5)["ids"], kept(softmax(equal), 0, 1, 2, 3)) < SIGMAS


def test_both_limits(model: wgcc_runtime.Model) -> None:
    # Of the four best 0.34, 0.34, 0.20, 0.12 are left; three of them reach 0.7.
    assert fit(model.both(z=SCORES)["ids"], kept(softmax(SCORES), 0, 3, 5)) < SIGMAS


def test_seeds(model: wgcc_runtime.Model) -> None:
    first = model.seeded(z=SCORES, s=5)["ids"]
    model.plain(z=SCORES)
    assert np.array_equal(first, model.seeded(z=SCORES, s=5)["ids"])
    other = model.seeded(z=SCORES, s=6)["ids"]
    assert correlation(first, other) < SIGMAS
    assert fit(other, softmax(SCORES)) < SIGMAS


def test_every_draw_is_another(model: wgcc_runtime.Model) -> None:
    calls = [model.twice(z=SCORES) for _ in range(3)]
    draws = [call[name] for call in calls for name in ("a", "b")]
    for i, one in enumerate(draws):
        assert all(correlation(one, other) < SIGMAS for other in draws[i + 1 :])


def test_tint_accepts_the_kernels(bundle: Path) -> None:
    answers = compile_all(list(bundle.glob("kernels/*")))
    assert not any(answers.values()), answers


def test_a_large_vocabulary(device: Any, tmp_path: Path) -> None:
    """As many classes as language models have; few dispatches and no tensor of pairs."""
    source = tmp_path / "large.wg"
    source.write_text(LARGE, encoding="utf-8")
    plan = compile_file(source).planned.plan
    assert len(plan["entries"]["pick"]["dispatches"]) <= 8
    assert plan["memory"]["temps"] <= 4 * 4 * 32000
    bundle = build(source, tmp_path / "b")
    assert not any(compile_all(list(bundle.glob("kernels/*"))).values())
    model = wgcc_runtime.load(bundle, device=device)
    z = np.random.default_rng(0).normal(0, 1, 32000).astype(np.float32)
    best = set(np.argsort(-z)[:50].tolist())
    found = {int(model.pick(z=z)["id"]) for _ in range(12)}
    assert found <= best and len(found) > 3


def test_top_p_looks_through_a_row_once_for_its_maximum(tmp_path: Path) -> None:
    path = tmp_path / "m.wg"
    path.write_text(
        "model M { entry run(x: f32[4, 4096]) -> (i: i32[4]) = sample(x, top_p = 0.9) }\n"
    )
    dispatches = compile_file(path).schedule.entries["run"].dispatches
    (launch,) = (
        dispatch.launches["gpu"]
        for dispatch in dispatches
        if family(dispatch.launches["gpu"]) == "select"
    )
    sites = access_of(tree_of(launch.kernel), launch.grid).sites
    loads = sum(site.accesses for site in sites if not site.is_store and site.accesses > 4)
    looks = loads / (4 * 4096 / 32)
    # The maximum, all weights, 32 bits of a score, the weight above it, 13 bits of a place, all.
    assert looks <= 1 + 1 + 32 + 1 + 13 + 1
