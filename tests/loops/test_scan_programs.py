"""Programs with loops (tests/loops): a sampler, decoding, Viterbi, a filter, an automaton."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from adapters import ROOT
from wgcc.bundle.emit import InitialValues
from wgcc.compiler import read_program
from wgcc.evaluate import Session
from wgcc.passes.pipeline import run_passes

Array = np.ndarray[Any, Any]
FOLDER = ROOT / "tests" / "loops"


def session(name: str, **params: Any) -> Session:
    """The program with its initial values, and `params` instead of some of them."""
    done = run_passes(read_program(FOLDER / f"{name}.wg")[1], check=True)
    values = {**InitialValues(done), **params}
    held = ({n: values[n] for n in names if n in values} for names in (done.params, done.state))
    return Session(done, *held)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def log_softmax(x: Array) -> Array:
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


def test_a_sampler_finds_the_distribution() -> None:
    """Where the noise is known exactly, samples have the mean and spread of the points."""
    one = session("diffusion")
    x = np.concatenate([one.call("sample_exact")["x"] for _ in range(4)])
    np.testing.assert_allclose(x.mean(0), [1, -2], atol=0.1)
    np.testing.assert_allclose(x.std(0), [0.5, 0.5], atol=0.1)


def test_a_network_learns_to_sample() -> None:
    one, random = session("diffusion"), np.random.default_rng(0)
    for _ in range(400):
        points = np.array([1, -2]) + 0.5 * random.normal(size=(256, 2))
        one.call("train", {"points": points, "t": random.integers(50)})
    found = one.call("sample")
    np.testing.assert_allclose(found["x"].mean(0), [1, -2], atol=0.3)
    np.testing.assert_allclose(found["means"][0], found["x"].mean(0), rtol=1e-6)


def test_greedy_decoding_takes_the_best_token_each_time() -> None:
    one = session("greedy")
    p = one.params
    prompt = np.array([3, 1, 4, 1, 5])
    assert one.program.entries["decode"].entry.ranges == {"prompt": (0, 10, None)}
    found = one.call("decode", {"prompt": prompt})
    h, token = np.zeros(12), 0
    tokens, scores = [], []
    for t in range(24):
        x = p["table.w"][prompt[t] if t < 5 else token]
        (xr, xz, xn), (hr, hz, hn) = (
            np.split(v @ p[f"cell.{w}.w"] + p[f"cell.{w}.b"], 3) for v, w in ((x, "wx"), (h, "wh"))
        )
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        h = (1 - z) * np.tanh(xn + r * hn) + z * h
        logits = h @ p["head.w"] + p["head.b"]
        if t >= 4:
            token = int(logits.argmax())
            tokens.append(token)
            scores.append(log_softmax(logits).max())
    np.testing.assert_array_equal(found["tokens"], tokens)
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-6)


def test_viterbi_finds_the_best_of_all_paths() -> None:
    random = np.random.default_rng(5)
    moves, seen = random.normal(size=(4, 4)), 2 * random.normal(size=(12, 4))
    one = session("viterbi", moves=moves)
    assert one.program.entries["path"].entry.range_guard is None, "back-pointers are states"
    found = one.call("path", {"seen": seen})
    best = log_softmax(np.zeros(4)) + seen[0]
    paths = [[s] for s in range(4)]
    for t in range(1, 12):
        ways = best[:, None] + log_softmax(moves)
        paths = [[*paths[ways[:, s].argmax()], s] for s in range(4)]
        best = ways.max(0) + seen[t]
    np.testing.assert_array_equal(found["states"], paths[best.argmax()])
    assert found["score"] == pytest.approx(best.max(), rel=1e-6)
    losses = [one.call("train", {"seen": seen})["loss"] for _ in range(20)]
    assert all(b < a for a, b in pairwise(losses))


def kalman(seen: Array, process: float, sensor: float) -> tuple[Array, float]:
    x, p, places, loss = np.zeros(2), 10 * np.eye(2), [], 0.0
    move, noise = np.array([[1, 1], [0, 1.0]]), np.array([[0.25, 0.5], [0.5, 1]])
    for z in seen:
        x, p = move @ x, move @ p @ move.T + np.exp(process) * noise
        spread = p[0, 0] + np.exp(sensor)
        loss += 0.5 * (np.log(2 * np.pi * spread) + (z - x[0]) ** 2 / spread)
        x, p = x + p[:, 0] / spread * (z - x[0]), p - np.outer(p[:, 0] / spread, p[0])
        places.append(x)
    return np.stack(places), loss


def test_a_kalman_filter_tracks_and_learns_its_noise() -> None:
    random, one = np.random.default_rng(1), session("kalman")
    seen = 0.7 * np.arange(40) + random.normal(size=40)
    found = one.call("track", {"seen": seen})
    places, loss = kalman(seen, -2.0, 0.0)
    np.testing.assert_allclose(found["places"], places, rtol=1e-6, atol=1e-8)
    assert found["loss"] == pytest.approx(loss, rel=1e-6)
    before = dict(one.params)
    one.call("train", {"seen": seen})
    step = 1e-5
    for name, at in (("process", (1, 0)), ("sensor", (0, 1))):
        up, down = (kalman(seen, -2 + s * at[0], s * at[1])[1] for s in (step, -step))
        slope = (before[name] - one.params[name]) / 0.002
        assert slope == pytest.approx((up - down) / (2 * step), rel=1e-4)


def test_an_automaton_grows_and_learns() -> None:
    one = session("automaton")
    found = one.call("grow")
    assert found["energy"][-1] == pytest.approx(np.square(found["cells"]).mean(), rel=1e-6)
    target = np.zeros((2, 8, 8))
    target[:, 2:6, 2:6] = 0.8
    losses = [one.call("train", {"target": target})["loss"] for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]


def test_rounds_may_be_steps_of_training() -> None:
    one, random = session("steps"), np.random.default_rng(0)
    xs = random.normal(size=(20, 8, 3))
    ys = xs @ np.array([1, -2, 0.5])
    found = one.call("train", {"xs": xs, "ys": ys})
    w, losses = np.zeros(3), []
    for x, y in zip(xs, ys, strict=True):
        error = x @ w - y
        losses.append(np.square(error).mean())
        w = w - 0.1 * 2 / 8 * x.T @ error
    np.testing.assert_allclose(found["losses"], losses, rtol=1e-6)
    np.testing.assert_allclose(one.params["w"], w, rtol=1e-6)
    assert found["n"] == 20
