"""What averaging means for each part of a step: two workers in one process, beside one machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import TWIN, build
from wgcc_runtime.distributed.agreement import Agreement, Wants, agreement_of
from wgcc_runtime.distributed.averaging import mean
from wgcc_runtime.distributed.worker import Worker
from wgcc_runtime.model import Model

# Two optimizers, one of which accumulates, clips and keeps averages; nothing of a worker's own.
PLAIN = """
dim B = 4
model Plain {
  a: Linear[5, 7]
  b: Linear[7, 1]
  optimizer one: adam { lr = 0.01; accumulate = 2; ema = 0.8; clip_norm = 0.05 }
  optimizer two: sgd { lr = 0.1; momentum = 0.9 }
  entry train(x: f32[B, 5], y: f32[B, 1]) -> (loss: f32, norm: f32, root: f32) {
    loss = mse(b(tanh(a(x))), y)
    minimize loss with one over "a.*"
    minimize loss with two over "b.*"
    return loss, two.grad_norm, sqrt(mean(y) + 1e6)
  }
}
"""
# What each worker has of its own: statistics of its rows, dropout; and a state of integers.
OWN = """
dim B = 4
model Own {
  seed = 11
  a: Linear[5, 6]
  norm: BatchNorm[6]
  b: Linear[6, 1]
  state calls: i32 = 0
  state seen: f32 = 0.0
  optimizer opt: adam { lr = 0.01; accumulate = 2; ema = 0.8 }
  entry train(x: f32[B, 5], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(b(dropout(norm(a(x)), 0.4)), y)
    minimize loss with opt
    calls := calls + 1
    seen := sum(x)
    return loss
  }
}
"""
ROWS = 32


def rows(count: int = ROWS) -> dict[str, Any]:
    random = np.random.default_rng(8)
    x = random.standard_normal((count, 5)).astype(np.float32)
    return {"x": x, "y": np.sin(x.sum(axis=1, keepdims=True))}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("meaning")
    found = {}
    for name, text, batch in (("plain", PLAIN, 4), ("double", PLAIN, 8), ("own", OWN, 4)):
        source = folder / f"{name}.wg"
        source.write_text(text, encoding="utf-8")
        found[name] = build(source, folder / name, B=batch)
    return found


@contextmanager
def team(bundle: Path, data: dict[str, Any], size: int = 2) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        models = [stack.enter_context(load(bundle)) for _ in range(size)]
        workers = [Worker(model, "train", data, 0) for model in models]
        for rank, worker in enumerate(workers):
            worker.assign(rank)
        yield workers


def load(bundle: Path) -> Model:
    return wgcc_runtime.load(bundle, device=TWIN, threads=1)


def step(workers: list[Worker]) -> Agreement:
    """As `MpiTeam` makes it."""
    position = workers[0].model.progress.position
    average = mean([w.gradients(position + rank) for rank, w in enumerate(workers)])
    agreement = agreement_of([worker.apply(average, Wants()) for worker in workers])
    for worker in workers:
        worker.finish(agreement, position + len(workers))
    return agreement


def everything(model: Model) -> dict[str, Any]:
    """All values but the seed, which each worker has of its own."""
    found = {**model.params(), **model.state()}
    return {name: value for name, value in found.items() if name != "rng/seed"}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {n: v.tobytes() for n, v in one.items()} == {n: v.tobytes() for n, v in other.items()}


def test_optimizers_accumulation_and_averages(bundles: dict[str, Path]) -> None:
    """Two workers are one with twice the batch, in all that optimizers keep; both have the same."""
    data, seen = rows(), []
    with load(bundles["double"]) as one, team(bundles["plain"], data) as workers:
        start = everything(one)
        one.fit(data, steps=7, every=1, callbacks=[lambda r: seen.append((r, everything(one)))])
        for number, (report, expected) in enumerate(seen, start=1):
            for name, value in step(workers).outputs.items():
                assert abs(value - report.outputs[name]) <= 1e-5 * (1 + abs(value)), name
            found = [everything(worker.model) for worker in workers]
            assert same(*found)
            for name, value in found[0].items():
                assert np.allclose(value, expected[name], rtol=2e-4, atol=2e-6), (number, name)
            # `a` is updated in each second call, and so is its average; `b` in each.
            for name in ("a.w", "opt/one/ema/a.w", "b.w"):
                is_old = np.array_equal(expected[name], start[name])
                assert is_old == (number < 2 and name != "b.w"), (number, name)


def test_state_and_random_numbers(bundles: dict[str, Path]) -> None:
    data = rows()
    with team(bundles["own"], data) as workers, load(bundles["own"]) as lone:
        # Worker 0 draws what one machine would, worker 1 something else from the same rows.
        alone = Worker(lone, "train", data, 0)
        gradients = [worker.gradients(0) for worker in (alone, *workers)]
        assert np.array_equal(gradients[0], gradients[1])
        assert not np.array_equal(gradients[1], gradients[2])
        # What each would have alone after the first step, with its own batch.
        own = []
        for batch in (0, 1):
            lone.reset()
            alone.apply(alone.gradients(batch), Wants())
            own.append(everything(lone))
        step(workers)
        found = [everything(worker.model) for worker in workers]
        assert same(*found)
        for name in ("norm.run_mean", "norm.run_var", "seen"):
            assert not np.allclose(own[0][name], own[1][name]), name
            expected = (own[0][name].astype(np.float64) + own[1][name]) / 2
            assert np.allclose(found[0][name], expected, rtol=1e-6), name
        for _ in range(4):
            step(workers)
        found = [everything(worker.model) for worker in workers]
        assert same(*found) and found[0]["calls"] == 5
        seeds = [int(worker.model.state()["rng/seed"]) for worker in workers]
        assert seeds[0] == 11 != seeds[1] and workers[1].values().words["rng/seed"] == 11


@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize(("name", "y"), [("plain", 2e38), ("own", 2e38), ("plain", -1e7)])
def test_a_bad_step_of_one_worker_is_undone_on_both(
    name: str, y: float, bad: int, bundles: dict[str, Path]
) -> None:
    """In the middle of an accumulation; training then continues as if it had not happened.

    Gradients that are not finite fail on both, as their mean is not; a root fails on one only.
    """
    good, broken = rows(), rows()
    broken["y"][:] = np.float32(y)
    with team(bundles[name], good) as workers, team(bundles[name], good) as undisturbed:
        for _ in range(3):
            step(workers), step(undisturbed)
        before = [everything(worker.model) for worker in workers]
        spoiled = Worker(workers[bad].model, "train", broken, 0)
        spoiled.rank = bad
        agreement = step([spoiled if rank == bad else w for rank, w in enumerate(workers)])
        assert agreement.error is not None and agreement.error.code == "nan"
        assert agreement.error.message.startswith(f"worker {bad} (")
        assert agreement.error.message.endswith("; undone on all workers")
        for worker, values in zip(workers, before, strict=True):
            assert same(everything(worker.model), values)
            assert (worker.model.steps_done, worker.model.progress.position) == (3, 6)
        for _ in range(3):
            step(workers), step(undisturbed)
        assert same(everything(workers[0].model), everything(undisturbed[0].model))
        assert same(everything(workers[1].model), everything(undisturbed[1].model))
