"""The self-test of a bundle uses the weights it was built with, even if they were replaced."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import wgcc_runtime
from adapters import ROOT
from cli_runs import run
from web_stacks import run_job, verify
from wgcc.cli.commands.verify.stacks import StackError
from wgcc_runtime.errors import WgccError

# A folded constant, state and f16 as well as plain parameters; the seed is not 0, and not in state.
MODEL = """\
dim B = 4

model Net {
  seed = 5
  f: Linear[2, 3]
  g: Linear[3, 1]
  frozen param h: f16[3] ~ normal(0.0, 1.0)
  state calls: i32 = 3
  optimizer opt: adam { lr = 0.1; ema = 0.5 }

  fn forward[N](x: f32[N, 2]) -> f32[N, 1] = (x |> f |> tanh) * f32(h) + sin(f32(arange(3))) |> g

  entry train(x: f32[B, 2], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(forward(x), y)
    minimize loss with opt
    calls := calls + 1
    return loss
  }

  entry predict(x: f32[1, 2]) -> (y: f32[1, 1], calls: i32) = (forward(x), calls)
}
"""
EVERYWHERE = ("--on", "python,node,deno")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    source = tmp_path / "model.wg"
    source.write_text(MODEL)
    return source


@pytest.fixture
def weights(model: Path, tmp_path: Path) -> Path:
    """Other weights than the drawn ones, as another framework might save them."""
    rng = np.random.default_rng(0)
    shapes = {"f.w": (2, 3), "f.b": (3,), "g.w": (3, 1), "g.b": (1,), "h": (3,)}
    values = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file({**values, "calls": np.array(7, np.int64)}, tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    x = np.random.default_rng(1).normal(size=(16, 2)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=x[:, :1])
    return tmp_path / "data.npz"


def build(capsys: pytest.CaptureFixture[str], model: Path, *options: object) -> Path:
    bundle = model.parent / "bundle"
    code, _, err = run(capsys, "build", str(model), "-o", str(bundle), *map(str, options))
    assert code == 0, err
    return bundle


def train_over(capsys: pytest.CaptureFixture[str], bundle: Path, data: Path) -> None:
    """Trains into the bundle's own file of weights."""
    out = str(bundle / "weights.safetensors")
    options = ("--steps", "20", "--out", out, "--device", "llvmpipe")
    code, _, err = run(capsys, "train", str(bundle), str(data), *options)
    assert code == 0, err


def test_given_weights_are_verified(
    model: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = build(capsys, model, "--weights", weights)
    done = verify(bundle, *EVERYWHERE)
    assert done.returncode == 0, done.stderr
    assert [line.count(": ok  ") for line in done.stderr.splitlines()] == [1, 1, 1, 1]
    with wgcc_runtime.load(bundle, device="llvmpipe", verify=True) as loaded:
        assert int(loaded.state()["calls"]) == 7
    # Other weights than those of the self-test are detected.
    plan = json.loads((bundle / "plan.json").read_text())
    del plan["weights"]
    plan.pop("sha256", None)
    (bundle / "plan.json").write_text(json.dumps(plan))
    other = build(capsys, model)
    (other / "plan.json").write_text(json.dumps(plan))
    assert verify(other).returncode == 3


SEEDED = """
const { load } = await import(process.argv[1]);
const model = await load({ device: 'wasm', seed: 3 });
await model.reset(4);
console.log(JSON.stringify([...(await model.params())['f.w']]));
process.exit(0);
"""


def test_a_seed_keeps_weights_that_the_bundle_was_built_with(
    model: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or a seed for the shuffle would take an imported model's weights away."""
    bundle = build(capsys, model, "--weights", weights)
    given = load_file(weights)["f.w"]
    with wgcc_runtime.load(bundle, device="wasm", seed=3) as loaded:
        assert loaded.params()["f.w"].tolist() == given.tolist()
        loaded.reset(seed=4)
        assert loaded.params()["f.w"].tolist() == given.tolist()
        assert int(loaded.state()["calls"]) == 7
    script = ("node", "--input-type=module", "-e", SEEDED, (bundle / "index.js").as_uri())
    done = subprocess.run(script, capture_output=True, text=True)
    assert json.loads(done.stdout) == given.ravel().tolist(), done.stderr


def test_a_bundle_with_given_weights_is_tuned(
    model: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = build(capsys, model, "--weights", weights)
    before = (bundle / "weights.safetensors").read_bytes()
    code, _, err = run(capsys, "tune", str(bundle), "--device", "llvmpipe", "--seconds", "1")
    assert code == 0, err
    assert (bundle / "weights.safetensors").read_bytes() == before
    assert verify(bundle, *EVERYWHERE).returncode == 0


def test_trained_weights_in_the_bundle_do_not_fail_its_self_test(
    model: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The self-test draws the original weights; loading the bundle gives the trained ones."""
    bundle = build(capsys, model, "--seed", 11)
    with wgcc_runtime.load(bundle, device="llvmpipe") as loaded:
        first = loaded.params()["f.w"]
    train_over(capsys, bundle, data)
    assert verify(bundle, *EVERYWHERE).returncode == 0
    with wgcc_runtime.load(bundle, device="llvmpipe", verify=True) as loaded:
        trained = loaded.params()["f.w"]
        loaded.reset_to_bundle()
        assert loaded.params()["f.w"].tolist() == first.tolist() != trained.tolist()
    code, _, err = run(capsys, "tune", str(bundle), "--device", "llvmpipe", "--seconds", "1")
    assert code == 0, err
    assert verify(bundle, *EVERYWHERE).returncode == 0


def test_weights_that_replace_given_ones_cannot_be_verified(
    model: Path, weights: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = build(capsys, model, "--weights", weights)
    train_over(capsys, bundle, data)
    done = verify(bundle, *EVERYWHERE)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "--weights" in line]
    assert len(lines) == 4 and all("was replaced" in line for line in lines)
    with pytest.raises(WgccError) as caught:
        wgcc_runtime.load(bundle, device="llvmpipe", verify=True)
    assert caught.value.code == "weights"
    with pytest.raises(StackError) as refused:
        run_job("node", bundle, "verified", {"verify": True})
    assert refused.value.code == "weights"


def test_weights_from_outside(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Entries that need them have a self-test as soon as they are given."""
    model.write_text(
        "model M {\n  param w: f32[3] ~ external\n  param v: f32[3] = 2.0\n"
        "  optimizer opt: adam { lr = 0.1; ema = 0.5 }\n"
        "  entry train(x: f32[3]) -> (loss: f32) {\n"
        "    loss = sum(w * w * x)\n    minimize loss with opt\n    return loss\n  }\n"
        "  entry twice(x: f32[3]) -> (y: f32[3]) = x * v\n}\n"
    )
    entries = {}
    save_file({"w": np.float32([1, 2, 3])}, model.parent / "w.safetensors")
    for options in ((), ("--weights", model.parent / "w.safetensors")):
        bundle = build(capsys, model, *options)
        plan = json.loads((bundle / "plan.json").read_text())
        entries[len(options)] = sorted(plan["selftest"]["entries"])
        # Missing weights are requested, not reported as wrong.
        assert verify(bundle).returncode == (0 if options else 1)
    assert entries == {0: ["twice"], 2: ["train", "twice"]}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"h": np.float32([1, 2, np.nan])}, "not a finite f16"),
        ({"h": np.float32([1, 2, 1e6])}, "not a finite f16"),
        ({"calls": np.float32(0.5)}, "takes i32"),
        ({"calls": np.array(2**40)}, "range of i32"),
    ],
)
def test_weights_that_no_runtime_would_accept_are_refused_at_once(
    values: dict[str, np.ndarray], text: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_file({name: np.asarray(value) for name, value in values.items()}, model.parent / "w.st")
    options = ("--weights", str(model.parent / "w.st"))
    code, _, err = run(capsys, "build", str(model), "-o", str(model.parent / "b"), *options)
    assert code == 1 and text in err
    assert not (model.parent / "b").exists()


def test_imported_weights_are_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, weights = ROOT / "tests" / "importing", tmp_path / "w.safetensors"
    files = [str(folder / f"cnn.{end}") for end in ("safetensors", "wg")]
    assert run(capsys, "import", *files, "-o", str(weights))[0] == 0
    bundle = tmp_path / "bundle"
    made = run(capsys, "build", files[1], "-o", str(bundle), "--weights", str(weights))
    assert made[0] == 0, made[2]
    assert verify(bundle).returncode == 0


def test_a_bundle_without_its_weights_draws_those_it_was_built_with(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where no state of the model holds the seed."""
    bundle = build(capsys, model)
    with wgcc_runtime.load(bundle, device="llvmpipe") as loaded:
        first = loaded.params()["f.w"]
    (bundle / "weights.safetensors").unlink()
    with wgcc_runtime.load(bundle, device="llvmpipe", verify=True) as loaded:
        assert loaded.params()["f.w"].tolist() == first.tolist()
