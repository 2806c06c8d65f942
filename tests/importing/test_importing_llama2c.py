"""`wgcc import` of llama2.c's weights: a model computes what llama2.c's `forward` does."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from cli_runs import run
from test_importing_layers import Arrays, Capture, outputs
from wgcc.errors import WgError
from wgcc.importing.llama2c import read_llama2c
from wgcc.importing.propose import join_attention

DIM, HIDDEN, LAYERS, HEADS, KV, VOCAB, LENGTH = SIZES = (16, 24, 2, 4, 2, 12, 7)
HEAD = DIM // HEADS
GROUP = 8
# In the order of version 0; the norms come first in the others.
PARTS = {
    "attention_norm": (DIM,), "attention.wq": (DIM, DIM), "attention.wk": (KV * HEAD, DIM),
    "attention.wv": (KV * HEAD, DIM), "attention.wo": (DIM, DIM), "ffn_norm": (DIM,),
    "feed_forward.w1": (HIDDEN, DIM), "feed_forward.w2": (DIM, HIDDEN),
    "feed_forward.w3": (HIDDEN, DIM),
}  # fmt: skip
MODEL = """\
layer Block[D, H, KH, F] {
  norm1: RMSNorm[D](eps = 1e-5)
  attn: Attention[D, H, KH]
  norm2: RMSNorm[D](eps = 1e-5)
  mlp: SwiGLU[D, F]

  fn forward[B, T](x: f32[B, T, D]) -> f32[B, T, D] {
    x = x + attn(norm1(x))
    return x + mlp(norm2(x))
  }
}

model Llama {
  tok: Embedding[12, 16]
  blocks[2]: Block[16, 4, 2, 24]
  norm: RMSNorm[16](eps = 1e-5)
  head: Linear[16, 12](bias = false)

  entry predict(ids: i32[1, 7]) -> (y: f32[1, 7, 12]) {
    x = tok(ids)
    for block in blocks { x = block(x) }
    return RESULT
  }
}
"""
UNTIED = MODEL.replace("RESULT", "head(norm(x))")
TIED = MODEL.replace("RESULT", "norm(x) @ transpose(tok.w)").replace(
    "  head: Linear[16, 12](bias = false)\n", ""
)


def weights(shared: bool) -> Arrays:
    generator = np.random.default_rng(7)

    def drawn(*shape: int) -> np.ndarray:
        return (generator.normal(size=shape) * (0.3 if len(shape) > 1 else 1)).astype(np.float32)

    found = {f"{layer}.{part}": drawn(*shape) for part, shape in PARTS.items()
             for layer in range(LAYERS)}  # fmt: skip
    found |= {"tok": drawn(VOCAB, DIM), "norm": drawn(DIM)}
    return found if shared else {**found, "output": drawn(VOCAB, DIM)}


def of_layers(arrays: Arrays, parts: list[str]) -> list[np.ndarray]:
    return [arrays[f"{layer}.{part}"] for part in parts for layer in range(LAYERS)]


def written(arrays: Arrays, version: int) -> bytes:
    """As llama2.c's export.py writes it; int8 groups are rounded, also in `arrays`."""
    norms, matrices = ([p for p, s in PARTS.items() if len(s) == n] for n in (1, 2))
    last = [arrays["output"]] if "output" in arrays else []
    if version == 0:
        sizes = [*SIZES[:5], -VOCAB if last else VOCAB, LENGTH]
        tables = [np.zeros((2, LENGTH, HEAD // 2), np.float32)]
        parts = [arrays["tok"], *of_layers(arrays, list(PARTS)), arrays["norm"], *tables, *last]
        return struct.pack("<7i", *sizes) + b"".join(part.tobytes() for part in parts)
    head = struct.pack("<I8iB", 0x616B3432, version, *SIZES, not last)
    head += struct.pack("<i", GROUP) if version == 2 else b""
    first = [*of_layers(arrays, norms), arrays["norm"]]
    rest = [arrays["tok"], *of_layers(arrays, matrices), *last]
    data = b"".join(part.tobytes() for part in first)
    data += b"".join(quantised(part) if version == 2 else part.tobytes() for part in rest)
    return head.ljust(256, b"\0") + data


def quantised(array: np.ndarray) -> bytes:
    groups = array.reshape(-1, GROUP)
    scale = np.abs(groups).max(1) / np.float32(127)
    numbers = np.round(groups / scale[:, None]).astype(np.int8)
    array[...] = (numbers.astype(np.float32) * scale[:, None]).reshape(array.shape)
    return numbers.tobytes() + scale.tobytes()


def rmsnorm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return weight * x / np.sqrt((x * x).mean() + 1e-5)


def turned(vector: np.ndarray, position: int) -> np.ndarray:
    """Neighbours are pairs, as in `forward` of run.c."""
    result = vector.copy()
    for i in range(0, len(vector), 2):
        angle = position / 10000 ** ((i % HEAD) / HEAD)
        a, b = vector[i], vector[i + 1]
        result[i] = a * np.cos(angle) - b * np.sin(angle)
        result[i + 1] = a * np.sin(angle) + b * np.cos(angle)
    return result


def attended(queries: np.ndarray, keys: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
    found = []
    for head in range(HEADS):
        own = slice(head * HEAD, (head + 1) * HEAD)
        kv = slice(head // (HEADS // KV) * HEAD, (head // (HEADS // KV) + 1) * HEAD)
        scores = np.array([queries[own] @ key[kv] for key in keys]) / np.sqrt(HEAD)
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        found.append(sum(s * v[kv] for s, v in zip(shares, values, strict=True)))
    return np.concatenate(found)


def forward(arrays: Arrays, ids: list[int]) -> np.ndarray:
    """The logits of every position, one token after the other, in f64."""
    w = {name: array.astype(np.float64) for name, array in arrays.items()}
    cache: list[tuple[list[np.ndarray], list[np.ndarray]]] = [([], []) for _ in range(LAYERS)]
    logits = []
    for position, token in enumerate(ids):
        x = w["tok"][token]
        for layer, (keys, values) in enumerate(cache):
            part = {name: w[f"{layer}.{name}"] for name in PARTS}
            h = rmsnorm(x, part["attention_norm"])
            keys.append(turned(part["attention.wk"] @ h, position))
            values.append(part["attention.wv"] @ h)
            q = turned(part["attention.wq"] @ h, position)
            x = x + part["attention.wo"] @ attended(q, keys, values)
            h = rmsnorm(x, part["ffn_norm"])
            gate, up = part["feed_forward.w1"] @ h, part["feed_forward.w3"] @ h
            x = x + part["feed_forward.w2"] @ (gate / (1 + np.exp(-gate)) * up)
        logits.append(w.get("output", w["tok"]) @ rmsnorm(x, w["norm"]))
    return np.array(logits)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("shared", "model"), [(True, TIED), (True, UNTIED), (False, UNTIED)])
def test_a_model_computes_what_llama2c_does(
    version: int, shared: bool, model: str, tmp_path: Path, capsys: Capture
) -> None:
    arrays = weights(shared)
    (tmp_path / "model.bin").write_bytes(written(arrays, version))
    (tmp_path / "m.wg").write_text(model)
    files = [str(tmp_path / name) for name in ("model.bin", "m.wg", "w.safetensors")]
    code, shown, err = run(capsys, "import", *files[:2], "-o", files[2])
    assert code == 0, shown + err
    assert "blocks.1.attn.wk.w  <- layers.1.attention.wk.weight, transposed, rope 2 " in shown
    assert f"is of llama2.c, version {version}" in err and "turns halves" in shown
    assert ("its int8 numbers, 8 with one scale, become f32" in err) == (version == 2)
    assert ("its classifier is shared" in err) == shared
    ids = [3, 1, 11, 0, 7, 7, 2]
    found = outputs(tmp_path / "m.wg", load_file(files[2]), np.array([ids], np.int32))
    np.testing.assert_allclose(found[0], forward(arrays, ids), rtol=1e-4, atol=2e-5)


def test_names_of_meta_do_not_say_how_many_heads(tmp_path: Path, capsys: Capture) -> None:
    """In other files than llama2.c's: a map gives it, and the outputs are the same."""
    arrays = weights(True)
    (tmp_path / "model.bin").write_bytes(written(arrays, 0))
    (tmp_path / "m.wg").write_text(TIED)
    held = read_llama2c(tmp_path / "model.bin").arrays
    save_file({n: a.copy() for n, a in held.items()}, tmp_path / "meta.safetensors")
    (tmp_path / "r.toml").write_text(
        "".join(
            f'"layers.*.attention.w{part}.weight" = '
            f'{{ to = "blocks.*.attn.w{part}.w", transpose = true, rope = {heads} }}\n'
            for part, heads in (("q", HEADS), ("k", KV))
        )
    )
    files = [
        str(tmp_path / name) for name in ("meta.safetensors", "m.wg", "r.toml", "w.safetensors")
    ]
    code, _, err = run(capsys, "import", *files[:2], "--map", files[2], "-o", files[3])
    assert code == 0 and "give queries and keys `rope HEADS`" in err
    ids = [3, 1, 11, 0, 7, 7, 2]
    found = outputs(tmp_path / "m.wg", load_file(files[3]), np.array([ids], np.int32))
    np.testing.assert_allclose(found[0], forward(arrays, ids), rtol=1e-4, atol=2e-5)


def refusal(data: bytes, tmp_path: Path) -> str:
    (tmp_path / "x.bin").write_bytes(data)
    with pytest.raises(WgError) as caught:
        read_llama2c(tmp_path / "x.bin")
    return str(caught.value)


def test_queries_keys_and_values_are_joined(tmp_path: Path) -> None:
    """For a model that has them side by side, with the halves that its `rope` turns."""
    arrays = weights(True)
    (tmp_path / "x.bin").write_bytes(written(arrays, 1))
    found = join_attention(read_llama2c(tmp_path / "x.bin"), {"blocks.0.attn.qkv.w": (DIM, DIM)})
    for layer in range(LAYERS):
        old = [arrays[f"{layer}.attention.w{part}"] for part in "qkv"]
        halves = [head * HEAD + start + 2 * pair for head in range(HEADS) for start in (0, 1)
                  for pair in range(HEAD // 2)]  # fmt: skip
        wanted = [old[0][halves], old[1][halves[: len(old[1])]], old[2]]
        (name,) = [name for name in found.arrays if "qkv" in name and f"layers.{layer}." in name]
        np.testing.assert_array_equal(found.arrays[name], np.concatenate(wanted))
    assert "side by side; assumed: the model's `rope` turns halves" in found.origin.notes[-2]


def test_damaged_files(tmp_path: Path, capsys: Capture) -> None:
    old, new, int8 = (written(weights(False), version) for version in (0, 1, 2))
    for whole in (old, new, int8):
        assert f"and it has {len(whole) - 5}" in refusal(whole[:-5], tmp_path)
        assert "is damaged" in refusal(whole + b"\0", tmp_path)
        assert "too short" in refusal(whole[:20], tmp_path)
    assert "version 9" in refusal(new[:4] + struct.pack("<i", 9) + new[8:], tmp_path)
    assert "no sizes of a model" in refusal(b"\xff" * 300, tmp_path)
    assert "no sizes of a model" in refusal(struct.pack("<7i", 16, 24, 2, 3, 2, 12, 7), tmp_path)
    assert "in pairs" in refusal(struct.pack("<7i", 6, 24, 2, 2, 2, 12, 7), tmp_path)
    assert "says that it has 9999 layers" in refusal(
        struct.pack("<7i", 16, 24, 9999, 4, 2, 12, 7), tmp_path
    )
    assert "groups of 0 numbers" in refusal(int8[:37] + bytes(4) + int8[41:], tmp_path)
    # 12 divides dim x hidden, but not dim x dim: 8 x 12 and 8 x 8.
    sizes = struct.pack("<I8iBi", 0x616B3432, 2, 8, 12, 1, 2, 2, 12, 7, 1, 12)
    assert "groups of 12 numbers do not fill" in refusal(sizes.ljust(4000, b"\0"), tmp_path)
    (tmp_path / "m.wg").write_text(TIED)
    (tmp_path / "x.bin").write_bytes(b"what is this? no weights, only words")
    code, _, err = run(capsys, "import", str(tmp_path / "x.bin"), str(tmp_path / "m.wg"))
    assert code == 1 and "neither a file of PyTorch nor of llama2.c" in err


def test_pickles_are_left_to_pytorch(tmp_path: Path, capsys: Capture) -> None:
    """Also by their first bytes: 640, a size of llama2.c, begins like one."""
    (tmp_path / "m.wg").write_text(TIED)
    for start in (b"\x80\x02}q\x00." * 9, b"PK\x03\x04" * 9):
        (tmp_path / "x.bin").write_bytes(start)
        _, _, err = run(capsys, "import", str(tmp_path / "x.bin"), str(tmp_path / "m.wg"))
        assert "PyTorch" in err and "llama2.c" not in err
    (tmp_path / "x.bin").write_bytes(struct.pack("<7i", 640, 24, 2, 4, 2, 12, 7))
    _, _, err = run(capsys, "import", str(tmp_path / "x.bin"), str(tmp_path / "m.wg"))
    assert "llama2.c, or it is damaged" in err
