"""`wgcc import` of layers as PyTorch names and stores them, against PyTorch's own outputs.

tests/importing/record.py recorded them. Outputs are the same here, or the map shows what is
undecided.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from adapters import ROOT
from cli_runs import run
from wgcc.bundle.emit import InitialValues
from wgcc.compiler import read_program
from wgcc.evaluate import Session
from wgcc.importing.transforms import Shape
from wgcc.importing.uses import uses
from wgcc.passes.autograd import autograd
from wgcc_runtime.weights import save_weights

FOLDER = ROOT / "tests" / "importing"
CLOSE = 1e-5
# Models that are compared with the same recorded PyTorch model.
RECORDED_AS = {
    "lstm_cell_own": "lstm_cell",
    "linear_square_transposed": "linear_square",
    "conv_transpose_spread": "conv_transpose",
}
MODELS = sorted(path.stem for path in FOLDER.glob("*.wg"))
# Where nothing in the file shows how it is stored.
ASSUMED = {
    "linear_square": "weight: stored [outputs, inputs, …] as in PyTorch",
    "norms": "l.w: stored [outputs, inputs, …] as in PyTorch",
    "conv1d_cube": "weight: stored [outputs, inputs, …] as in PyTorch",
    "conv2d": "weight: stored [outputs, inputs, …] as in PyTorch",
    "depthwise": "image.w: of a convolution, not of a transposed convolution (ConvTranspose)",
    "conv_transpose_spread": "weight: of a transposed convolution (ConvTranspose), to be flipped",
    "conv_transpose_cube": "weight: stored [inputs, outputs, …] as in PyTorch",
    "conv_transpose_patches": "weight: stored as the model uses it",
    "mlp": "layers.0.w, layers.1.w, layers.2.w: stored [outputs, inputs, …]",
}

Arrays = dict[str, np.ndarray]
Capture = pytest.CaptureFixture[str]


def outputs(model: Path, weights: Arrays, x: np.ndarray) -> np.ndarray:
    """Of `predict`, in numpy, with these weights and the model's own initial values elsewhere."""
    program = read_program(model)[1]
    entries = {name: autograd(graph) for name, graph in program.entries.items()}
    program = replace(program, entries=entries)
    values = {**InitialValues(program), **weights}
    held = ({n: values[n] for n in names} for names in (program.params, program.state))
    session = Session(program, *held, dtype="f32")
    (name,) = (value.name for value in program.entries["predict"].inputs)
    return session.call("predict", {name: x})["y"]


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_pytorch(name: str, tmp_path: Path, capsys: Capture) -> None:
    recorded, out = RECORDED_AS.get(name, name), tmp_path / "out.safetensors"
    files = (str(FOLDER / f"{recorded}.safetensors"), str(FOLDER / f"{name}.wg"))
    code, shown, err = run(capsys, "import", *files, "-o", str(out))
    assert code == 0, shown + err
    example = load_file(FOLDER / f"{recorded}_run.safetensors")
    found = outputs(FOLDER / f"{name}.wg", load_file(out), example["x"])
    assert (np.abs(found - example["y"]) / (1 + np.abs(example["y"]))).max() <= CLOSE
    assert f"# assumed: {ASSUMED.get(name, '')}" in shown or name not in ASSUMED
    assert "not found" not in shown


def test_the_models_have_as_many_tensors_as_they_say() -> None:
    assert len(load_file(FOLDER / "llama.safetensors")) == 47
    assert len(load_file(FOLDER / "cnn_deep.safetensors")) == 38


def imported(
    model: str, tensors: Arrays, tmp_path: Path, capsys: Capture, *more: str
) -> tuple[int, str, str, Arrays]:
    """Exit code, stdout, stderr and the weights written."""
    (tmp_path / "model.wg").write_text(model)
    save_file({name: np.ascontiguousarray(a) for name, a in tensors.items()}, tmp_path / "in.st")
    out = tmp_path / "out.safetensors"
    out.unlink(missing_ok=True)
    files = (str(tmp_path / "in.st"), str(tmp_path / "model.wg"), "-o", str(out))
    code, shown, err = run(capsys, "import", *files, *more)
    return code, shown, err, load_file(out) if out.exists() else {}


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


STATEFUL = """\
model M {
  l: Linear[8, 8]
  state h: f32[8] = 0.0
  state used: i32 = 0

  entry step(x: f32[8]) -> (y: f32[8]) {
    h := tanh(l(x) + h)
    used := used + 1
    return h
  }
}
"""


def test_state_is_filled_by_rules_only(tmp_path: Path, capsys: Capture) -> None:
    """State is not matched by shape or by name, and is not reported as missing."""
    tensors = {"l.weight": random(8, 8), "l.bias": random(8), "spare.bias": random(8) + 1}
    code, shown, _, made = imported(STATEFUL, tensors, tmp_path, capsys)
    assert code == 0 and sorted(made) == ["l.b", "l.w"]
    assert "not found" not in shown and "h [8]" not in shown and "# not used: spare.bias" in shown
    tensors["h"] = random(8) + 2
    code, shown, _, made = imported(STATEFUL, tensors, tmp_path, capsys)
    assert code == 0 and "h" not in made
    assert "# not filled: h, state that the file has, too (to fill: `h <- h`)" in shown
    (tmp_path / "map.txt").write_text("h <- h")
    code, _, _, made = imported(
        STATEFUL, tensors, tmp_path, capsys, "--map", str(tmp_path / "map.txt")
    )
    assert code == 0 and np.array_equal(made["h"], tensors["h"])


TWO = """\
model M {
  left: Linear[8, 8]
  right: Linear[8, 8]

  entry predict(x: f32[2, 8]) -> (y: f32[2, 8]) = right(tanh(left(x)))
}
"""


def test_equal_shapes_without_names_are_undecided(tmp_path: Path, capsys: Capture) -> None:
    tensors = {f"{name}.{kind}": random(*shape)
               for name in ("apple", "pear")
               for kind, shape in (("weight", (8, 8)), ("bias", (8,)))}  # fmt: skip
    code, shown, err, made = imported(TWO, tensors, tmp_path, capsys)
    assert code == 1 and not made and "not decided: left.w, left.b, right.w and 1 more" in err
    assert "left.w  <- ?  # [8, 8]: apple.weight | pear.weight; the names do not decide" in shown
    # The unchanged map decides nothing more, and neither does --partial.
    map_file = tmp_path / "map.txt"
    map_file.write_text(shown)
    with_map = ("--map", str(map_file))
    assert imported(TWO, tensors, tmp_path, capsys, *with_map, "--partial")[0] == 1
    # One rule, for a weight, shows where the rest is.
    map_file.write_text("left.w <- pear.weight, transposed")
    code, shown, err, made = imported(TWO, tensors, tmp_path, capsys, *with_map)
    assert code == 0 and "please check: right.w, right.b matched by its shape only" in err
    assert np.array_equal(made["left.w"], tensors["pear.weight"].T)
    assert np.array_equal(made["left.b"], tensors["pear.bias"])
    assert np.array_equal(made["right.w"], tensors["apple.weight"].T)
    # A name alone keeps the initial values.
    map_file.write_text("left.w\nleft.b\nright.w\nright.b")
    code, shown, _, made = imported(TWO, tensors, tmp_path, capsys, *with_map)
    assert code == 0 and not made and "left.w  # [8, 8] keeps its initial values" in shown


def test_a_name_with_another_shape_is_not_replaced(tmp_path: Path, capsys: Capture) -> None:
    tensors = {
        "left.weight": random(7, 8), "left.bias": random(7),
        "right.weight": random(8, 8), "right.bias": random(8),
        "other.weight": random(8, 8), "other.bias": random(8),
    }  # fmt: skip
    code, shown, err, made = imported(TWO, tensors, tmp_path, capsys)
    assert code == 1 and not made and "no tensor in the file fits left.w, left.b" in err
    assert "# not found: left.w [8, 8]; left.weight [7, 8] has its name, but not its shape" in shown
    assert np.array_equal(
        imported(TWO, tensors, tmp_path, capsys, "--partial")[3]["right.w"],
        tensors["right.weight"].T,
    )


SQUARES = """\
model M {
  left: Linear[8, 8](bias = false)
  right: Linear[8, 8](bias = false)
  out: Linear[8, 5](bias = false)

  entry predict(x: f32[2, 8]) -> (y: f32[2, 5]) = out(right(left(x)))
}
"""


@pytest.mark.parametrize(
    ("word", "out", "transposed", "said"),
    [
        # Other matrices of the file show how it stores them.
        ("weight", (5, 8), True, ""),
        ("weight", (8, 5), False, "stored as the model uses it"),
        ("w", (5, 8), True, "stored [outputs, inputs, …]"),
        ("w", (8, 5), False, ""),
        # Where there is none, the words of the file do.
        ("weight", None, True, "stored [outputs, inputs, …]"),
        ("w", None, False, "stored as the model uses it"),
        ("kernel", None, False, "stored as the model uses it"),
    ],
)
def test_square_matrices(
    word: str, out: Shape | None, transposed: bool, said: str, tmp_path: Path, capsys: Capture
) -> None:
    tensors = {f"{name}.{word}": random(8, 8) + at for at, name in enumerate(("left", "right"))}
    if out is not None:
        tensors[f"out.{word}"] = random(*out)
    code, shown, err, made = imported(SQUARES, tensors, tmp_path, capsys, "--partial")
    assert code == 0, err
    for name in ("left", "right"):
        given = tensors[f"{name}.{word}"]
        assert np.array_equal(made[f"{name}.w"], given.T if transposed else given)
    assert (said in shown and "see `# assumed`" in err) if said else "assumed" not in shown


def test_a_checkpoint_of_wgcc_is_stored_as_models_use_it(tmp_path: Path, capsys: Capture) -> None:
    tensors = {"left.weight": random(8, 8), "right.weight": random(8, 8) + 1}
    (tmp_path / "model.wg").write_text(TWO.replace("]\n", "](bias = false)\n"))
    save_weights(tmp_path / "in.st", tensors, {"model": "M"})
    out = tmp_path / "out.st"
    code, shown, _ = run(
        capsys, "import", str(tmp_path / "in.st"), str(tmp_path / "model.wg"), "-o", str(out)
    )
    assert code == 0 and "assumed" not in shown
    assert np.array_equal(load_file(out)["right.w"], tensors["right.weight"])


# One parameter `w`, how it is used, what the file has, and what the map says of it.
UNCLEAR = {
    "used both ways": (
        "f32[8, 8]", "(x: f32[2, 8]) -> (y: f32[2, 8]) = tanh(x @ mix) @ transpose(mix)", (8, 8),
        "mix <- mix.weight, ?  # [8, 8]: as it is | transposed; the model uses it both as it is",
    ),
    "a stack of matrices": (
        "f32[3, 8, 8]", "(x: f32[3, 2, 8]) -> (y: f32[3, 2, 8]) = x @ mix", (3, 8, 8),
        "mix <- mix.weight, ?  # [3, 8, 8]: as it is | axes 0,2,1; any of these orders would fit",
    ),
    "a sum of products": (
        "f32[8, 8]", "(x: f32[2, 8]) -> (y: f32[2, 8]) = sum(x[.., new] * mix, axis = 1)", (8, 8),
        "mix <- mix.weight, ?  # [8, 8]: transposed | as it is; its shape does not show",
    ),
    "a kernel reordered by the model": (
        "f32[3, 3, 4, 6]",
        "(x: f32[1, 5, 5, 4]) -> (y: f32[1, 3, 3, 6]) = conv2d(x, gather(mix, 2 - arange(3)))",
        (4, 6, 3, 3), "of a transposed convolution, flipped or not",
    ),
    "other elements": (
        "f32[12, 6]", "(x: f32[2, 12]) -> (y: f32[2, 6]) = x @ mix", (6, 4, 3),
        "mix [12, 6]; mix.weight [6, 4, 3] has its name, but not its shape (`reshaped`?)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNCLEAR)
def test_what_is_undecided_is_reported(case: str, tmp_path: Path, capsys: Capture) -> None:
    type_, entry, shape, said = UNCLEAR[case]
    model = f"model M {{\n  param mix: {type_} = 0.0\n\n  entry predict{entry}\n}}\n"
    code, shown, err, made = imported(model, {"mix.weight": random(*shape)}, tmp_path, capsys)
    assert code == 1 and not made and said in shown
    assert "not decided: mix;" in err or "no tensor in the file fits mix;" in err


SPREAD = (FOLDER / "conv_transpose_spread.wg").read_text()


@pytest.mark.parametrize("name", ["", "deconv.", "up.conv_transpose."])
def test_transposed_convolutions_with_equal_channels(
    name: str, tmp_path: Path, capsys: Capture
) -> None:
    """Zeros between the pixels of its image, or its name: it is not assumed to be a convolution."""
    plain = "model M {\n  conv: Conv2d[4, 4](k = 3)\n\n"
    plain += "  entry predict(x: f32[1, 5, 5, 4]) -> (y: f32[1, 3, 3, 4]) = conv(x)\n}\n"
    model = plain if name else SPREAD.replace("I = 3, O = 5", "I = 4, O = 4")
    tensors = {f"{name}weight": random(4, 4, 3, 3), f"{name}bias": random(4)}
    code, shown, _, _ = imported(model, tensors, tmp_path, capsys)
    assert code == 1
    assert "hwio | flipped, axes 2,3,0,1; of a convolution, or of a transposed one" in shown


def test_rules_can_cut_flip_and_reshape(tmp_path: Path, capsys: Capture) -> None:
    model = "model M {\n  param w: f32[12, 6] = 0.0\n\n"
    model += "  entry predict(x: f32[2, 12]) -> (y: f32[2, 6]) = x @ w\n}\n"
    tensors = {"conv.weight": random(8, 5, 3)}
    (tmp_path / "map.txt").write_text(
        "w <- conv.weight, rows 2:8, columns 1:5, flipped, axes 2, 1, 0, reshaped"
    )
    code, _, err, made = imported(
        model, tensors, tmp_path, capsys, "--map", str(tmp_path / "map.txt")
    )
    assert code == 0, err
    expected = tensors["conv.weight"][2:8, 1:5, ::-1].transpose(2, 1, 0).reshape(12, 6)
    assert np.array_equal(made["w"], expected)


def test_help_shows_how_maps_are_written(capsys: Capture) -> None:
    code, out, _ = run(capsys, "import", "--help")
    assert code == 0
    for text in (
        "PARAMETER <- TENSOR, CHANGES", "keeps its initial values", "rows 0:64", "flipped",
        "conv.w    <- features.0.weight, axes 2,1,0", "Exit code 1", "blocks.*.up.w <-",
    ):  # fmt: skip
        assert text in out, text


@pytest.mark.parametrize(
    ("declaration", "expression", "operation", "axes"),
    [
        ("f32[4, 6]", "x @ w", "product", ("input", "output")),
        ("f32[6, 4]", "x @ transpose(w)", "product", ("output", "input")),
        ("f32[6, 4]", "transpose(w @ transpose(x))", "product", ("output", "input")),
        ("f32[6, 4]", 'einsum("b i, o i -> b o", x, w)', "product", ("output", "input")),
        ("f32[2, 4, 3]", 'x @ rearrange(w, "A I B -> I (A B)")', "product",
         ("output", "input", "output")),
        ("f32[4, 6]", "x @ (w * 2.0 - mean(w))", "product", ("input", "output")),
        ("f32[4, 3]", "x @ concat([w, w], axis = 1)", "product", ("input", "output")),
        ("f32[4, 6]", "sum(x[.., new] * w, axis = 1)", "weighted sum", ("input", "output")),
        ("f32[4, 6]", "gather(w, i32(sum(x, axis = 1)))", "lookup", ("row", "feature")),
        ("f32[2, 6]", "w + 0.0 * sum(x)", "plain", ("plain", "plain")),
    ],
)  # fmt: skip
def test_uses_are_seen_through_views(
    declaration: str, expression: str, operation: str, axes: tuple[str, ...], tmp_path: Path
) -> None:
    text = f"model M {{\n  param w: {declaration} = 0.0\n\n"
    text += f"  entry predict(x: f32[2, 4]) -> (y: f32[2, 6]) = {expression}\n}}\n"
    (tmp_path / "m.wg").write_text(text)
    use = uses(read_program(tmp_path / "m.wg")[1])["w"]
    assert (use.operation, use.axes) == (operation, axes)
