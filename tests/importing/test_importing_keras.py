"""`wgcc import` of weights that Keras saved: its outputs; damaged and hostile files are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file

from cli_runs import run
from test_importing_layers import CLOSE, FOLDER, Capture, outputs
from wgcc.errors import WgError
from wgcc.importing.keras import read_keras

KERAS = FOLDER / "keras"
Fault = Callable[[Any, Path], Any]


def same_outputs(file: Path, name: str, tmp_path: Path, capsys: Capture) -> str:
    """Imports, compares with what Keras computed, and returns the map."""
    out, model = tmp_path / "out.safetensors", KERAS / f"{name}.wg"
    code, shown, err = run(capsys, "import", str(file), str(model), "-o", str(out))
    assert code == 0, shown + err
    example = load_file(KERAS / f"{name}_run.safetensors")
    found = outputs(model, load_file(out), example["x"])
    assert (np.abs(found - example["y"]) / (1 + np.abs(example["y"]))).max() <= CLOSE
    return shown


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("images.weights.h5", "images"),
        ("images_before.h5", "images"),
        ("sequences.weights.h5", "sequences"),
    ],
)
def test_outputs_are_those_of_keras(file: str, name: str, tmp_path: Path, capsys: Capture) -> None:
    """Also of kernels whose shapes show nothing: no order is only assumed."""
    shown = same_outputs(KERAS / file, name, tmp_path, capsys)
    assert "assumed" not in shown and "not found" not in shown
    if name == "images":
        assert "conv_transpose.w      <- conv2d_transpose.kernel, axes 0,1,3,2 " in shown
    else:
        assert "gru.back.0.bias_hh     <- bidirectional.bias_hh_reverse, gates zrn " in shown


def test_a_whole_model_of_keras(tmp_path: Path, capsys: Capture) -> None:
    with ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.write(KERAS / "images.weights.h5", "model.weights.h5")
        archive.writestr("config.json", "{}")
    same_outputs(tmp_path / "m.keras", "images", tmp_path, capsys)
    (tmp_path / "cut.keras").write_bytes((tmp_path / "m.keras").read_bytes()[:9000])
    with ZipFile(tmp_path / "empty.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    for name, text in (("cut", "cannot be read"), ("empty", "holds no model.weights.h5")):
        code, _, err = run(
            capsys, "import", str(tmp_path / f"{name}.keras"), str(KERAS / "images.wg")
        )
        assert code == 1 and text in err and "internal" not in err


def test_weights_alone_of_keras_2(tmp_path: Path, capsys: Capture) -> None:
    with h5py.File(KERAS / "images_before.h5") as before, h5py.File(tmp_path / "w.h5", "w") as file:
        for name in before["model_weights"]:
            before.copy(f"model_weights/{name}", file)
    same_outputs(tmp_path / "w.h5", "images", tmp_path, capsys)


def test_joined_heads(tmp_path: Path, capsys: Capture) -> None:
    """Kernels [inputs, heads, size] for a layer that has queries, keys and values side by side."""
    with h5py.File(tmp_path / "w.h5", "w") as file:
        for place, name in enumerate(("query", "key", "value")):
            kernel = np.arange(48, dtype=np.float32).reshape(8, 2, 3) + 100 * place
            file[f"mha/{name}_dense/vars/0"] = kernel[:6]
            file[f"mha/{name}_dense/vars/1"] = np.full((2, 3), place, np.float32)
        file["mha/output_dense/vars/0"] = np.arange(36, dtype=np.float32).reshape(2, 3, 6)
        file["mha/output_dense/vars/1"] = np.zeros(6, np.float32)
    (tmp_path / "m.wg").write_text("""\
model M {
  attn: MultiHeadAttention[6, 2]

  entry predict(x: f32[1, 5, 6]) -> (y: f32[1, 5, 6]) = attn(x)
}
""")
    files = [str(tmp_path / name) for name in ("w.h5", "m.wg", "out.safetensors")]
    code, shown, err = run(capsys, "import", *files[:2], "-o", files[2])
    assert code == 0, shown + err
    made = load_file(files[2])
    assert made["attn.in_proj.w"][1].tolist() == [*range(6, 12), *range(106, 112), *range(206, 212)]
    assert made["attn.in_proj.b"].tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert made["attn.out_proj.w"].tolist() == np.arange(36).reshape(6, 6).tolist()


def test_convolutions_that_are_called_like_parts_of_attention(tmp_path: Path) -> None:
    """Their kernels have three axes, too, but no heads."""
    kernel = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    names = ("query", "key", "value", "output")
    with h5py.File(tmp_path / "w.h5", "w") as file:
        for at, name in enumerate(names):
            held = file.create_group(f"layers/conv1d{f'_{at}' if at else ''}/vars")
            held.attrs["name"] = name
            held["0"], held["1"] = kernel, np.zeros(4, np.float32)
    found = read_keras(tmp_path / "w.h5").arrays
    assert all(np.array_equal(found[f"{name}.kernel"], kernel) for name in names)
    with h5py.File(tmp_path / "o.h5", "w") as file:
        file["output/vars/0"] = kernel
    assert np.array_equal(read_keras(tmp_path / "o.h5").arrays["output.kernel"], kernel)


def test_own_names_and_state_of_keras(tmp_path: Path) -> None:
    """Layers in lists are named after their class; a name that the user gave is better."""
    with h5py.File(tmp_path / "w.weights.h5", "w") as file:
        for at, name in enumerate(("dense_7", "dense_8", "head")):
            held = file.create_group(f"layers/dense{f'_{at}' if at else ''}/vars")
            held.attrs["name"] = name
            held["0"], held["1"] = np.ones((3, 3), np.float32), np.ones(3, np.float32)
        file["optimizer/vars/0"] = np.ones(3)
        file["layers/dropout/seed_generator/vars/0"] = np.ones(2, np.uint32)
        file["block/bn/vars/0"] = np.ones(3)
        file["block/bn/vars"].attrs["name"] = "batch_normalization"
        file["block/bn/vars/1"] = file["block/bn/vars/2"] = np.ones(3)
        file["gru/cell/vars/0"], file["gru/cell/vars/1"] = np.ones((2, 9)), np.ones((3, 9))
        file["gru/cell/vars/2"] = np.ones(9)
    found = read_keras(tmp_path / "w.weights.h5")
    assert set(found.arrays) == {
        *(f"{name}.{leaf}" for name in ("dense_0", "dense_1", "head") for leaf in
          ("kernel", "bias")),
        "block.bn.vars_0", "block.bn.moving_mean", "block.bn.moving_variance",
        "gru.kernel_ih", "gru.kernel_hh", "gru.bias_ih", "gru.bias_hh",
    }  # fmt: skip
    assert "reset_after=False" in found.origin.notes[0]


def refusal(path: Path) -> str:
    with pytest.raises(WgError) as caught:
        read_keras(path)
    return str(caught.value)


def test_damaged_files(tmp_path: Path) -> None:
    whole = (KERAS / "images.weights.h5").read_bytes()
    file = tmp_path / "x.h5"
    for size in (0, 100, 2000, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert "cannot be read as a file of Keras" in refusal(file)
    generator = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(whole)
        for place in generator.integers(0, 6000, 4):
            damaged[place] ^= int(generator.integers(1, 256))
        file.write_bytes(damaged)
        try:
            read_keras(file)
        except WgError as error:
            assert str(file) in str(error) or "holds whole numbers" in str(error)


def outside(group: Any, folder: Path) -> None:
    place = [(str(folder / "secret.bin"), 0, h5py.h5f.UNLIMITED)]
    group.create_dataset("0", (4, 4), "f4", external=place)


def virtual(group: Any, folder: Path) -> None:
    layout = h5py.VirtualLayout((4, 4), "f4")
    layout[:] = h5py.VirtualSource(str(folder / "y.h5"), "a", (4, 4))
    group.create_virtual_dataset("0", layout)


def linked(link: Any) -> Fault:
    return lambda group, folder: group.__setitem__("0", link)


def huge(**more: Any) -> Fault:
    return lambda group, folder: group.create_dataset("0", (1 << 40,), "f4", chunks=(9,), **more)


def circle(group: Any, folder: Path) -> None:
    group["again"] = group.file["layers"]


FAULTS: list[tuple[Fault, str]] = [
    (linked(h5py.SoftLink("/layers")), "layers/dense/vars/0 is a link, which is not followed"),
    (linked(h5py.ExternalLink("other.h5", "/layers")), "is a link, which is not followed"),
    (outside, "is stored in another file"),
    (virtual, "is stored in another file"),
    (huge(), "holds fewer numbers than its shape"),
    (huge(compression="gzip"), "holds fewer numbers than its shape"),
    (circle, "nested more than 32 deep"),
    (linked(np.ones((3, 3), np.int8)), "the model was quantised"),
    (linked(np.zeros(3, [("a", "f4")])), "holds no weights of Keras"),
]


def test_hostile_files(tmp_path: Path) -> None:
    for number, (fault, text) in enumerate(FAULTS):
        file = tmp_path / f"{number}.h5"
        with h5py.File(file, "w") as held:
            fault(held.create_group("layers/dense/vars"), tmp_path)
        assert text in refusal(file)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"kernel": (3, 3, 2, 8), "recurrent_kernel": (3, 3, 2, 8)}, "convolutions (ConvLSTM)"),
        ({"recurrent_kernel": (2, 8)}, "no recurrent layer of Keras: it has recurrent_kernel"),
        ({"kernel": (3, 0), "recurrent_kernel": (0, 0)}, "no recurrent layer of Keras"),
        ({"kernel": (8,), "recurrent_kernel": (2, 8)}, "kernel [8]"),
        ({"kernel": (3, 8), "recurrent_kernel": (2, 8), "bias": (3, 8)}, "bias [3, 8]"),
    ],
)
def test_recurrent_layers_of_other_kinds(
    arrays: dict[str, tuple[int, ...]], message: str, tmp_path: Path
) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        for name, shape in arrays.items():
            file[f"model_weights/own/own/{name}:0"] = np.zeros(shape, np.float32)
    found = refusal(tmp_path / "w.h5")
    assert message in found and found.startswith("own is ")


def test_without_h5py(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    files = (str(KERAS / "images.weights.h5"), str(KERAS / "images.wg"))
    code, _, err = run(capsys, "import", *files)
    assert code == 1 and "pip install 'wgcc[keras]'" in err
