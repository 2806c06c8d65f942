"""Random models, and files as PyTorch would store them: nothing wrong is imported silently.

A tensor matched by its name is correct, with its axes in the correct order; other matches and
assumptions are reported, the rest is undecided.

More of them: `python tests/importing/test_importing_random.py 0 3000`.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from wgcc.compiler import read_program
from wgcc.importing.matching import NAME, ORDER
from wgcc.importing.propose import Model, Pair, propose
from wgcc.importing.transforms import Shape
from wgcc.importing.uses import uses
from wgcc.importing.weight_files import own_tensors

# No two mean the same.
WORDS = [
    "fc", "enc", "dec", "conv", "head", "q", "k", "v", "layer1", "layer2", "up", "down", "gate",
    "out", "inp", "mix", "norm1", "norm2", "pos", "stem", "body", "tail", "foo", "bar", "left",
    "right", "attn", "mlp", "hidden", "lin1", "lin2", "lin3", "res", "skip",
]  # fmt: skip
SEEDS = 60

# A tensor of the file, and the order in which its axes give the parameter.
Wanted = tuple[str, Shape]


@dataclass
class Layer:
    """A layer of the model, an entry that uses it, and its tensors in the file."""

    declaration: str
    entry: str
    sources: dict[str, Shape]
    wanted: dict[str, Wanted]
    definition: str = ""


@dataclass
class Case:
    text: str
    sources: dict[str, Shape]
    wanted: dict[str, Wanted] = field(default_factory=dict)


def linear(name: str, source: str, inputs: int, outputs: int) -> Layer:
    return Layer(
        f"{name}: Linear[{inputs}, {outputs}]",
        f"(x: f32[2, {inputs}]) -> (y: f32[2, {outputs}]) = {name}(x)",
        {f"{source}.weight": (outputs, inputs), f"{source}.bias": (outputs,)},
        {f"{name}.w": (f"{source}.weight", (1, 0)), f"{name}.b": (f"{source}.bias", (0,))},
    )


def transposed(name: str, source: str, inputs: int, outputs: int) -> Layer:
    """Stored as in PyTorch."""
    return Layer(
        f"{name}: Of_{name}",
        f"(x: f32[2, {inputs}]) -> (y: f32[2, {outputs}]) = {name}(x)",
        {f"{source}.weight": (outputs, inputs)},
        {f"{name}.weight": (f"{source}.weight", (0, 1))},
        f"layer Of_{name} {{\n  param weight: f32[{outputs}, {inputs}] = 0.0\n"
        f"  fn forward(x: f32[2, {inputs}]) -> f32[2, {outputs}] = x @ transpose(weight)\n}}\n",
    )


def convolution(name: str, source: str, inputs: int, outputs: int) -> Layer:
    """Over time, the kernel as [width, inputs, outputs]."""
    shape = f"3, {inputs}, {outputs}"
    return Layer(
        f"{name}: Of_{name}",
        f"(x: f32[2, 7, 1, {inputs}]) -> (y: f32[2, 5, 1, {outputs}]) = {name}(x)",
        {f"{source}.weight": (outputs, inputs, 3)},
        {f"{name}.w": (f"{source}.weight", (2, 1, 0))},
        f"layer Of_{name} {{\n  param w: f32[{shape}] = 0.0\n"
        f"  fn forward(x: f32[2, 7, 1, {inputs}]) -> f32[2, 5, 1, {outputs}] = "
        f"conv2d(x, reshape(w, [3, 1, {inputs}, {outputs}]))\n}}\n",
    )


def image_convolution(name: str, source: str, inputs: int, outputs: int) -> Layer:
    return Layer(
        f"{name}: Conv2d[{inputs}, {outputs}](k = 3)",
        f"(x: f32[1, 5, 5, {inputs}]) -> (y: f32[1, 3, 3, {outputs}]) = {name}(x)",
        {f"{source}.weight": (outputs, inputs, 3, 3), f"{source}.bias": (outputs,)},
        {f"{name}.w": (f"{source}.weight", (2, 3, 1, 0)), f"{name}.b": (f"{source}.bias", (0,))},
    )


def embedding(name: str, source: str, rows: int, width: int) -> Layer:
    return Layer(
        f"{name}: Embedding[{rows}, {width}]",
        f"(x: i32[2]) -> (y: f32[2, {width}]) = {name}(x)",
        {f"{source}.weight": (rows, width)},
        {f"{name}.w": (f"{source}.weight", (0, 1))},
    )


def batch_norm(name: str, source: str, width: int, _: int) -> Layer:
    names = {"g": "weight", "b": "bias", "run_mean": "running_mean", "run_var": "running_var"}
    return Layer(
        f"{name}: BatchNorm[{width}]",
        f"(x: f32[2, {width}]) -> (y: f32[2, {width}]) = {name}(x)",
        {f"{source}.{leaf}": (width,) for leaf in names.values()}
        | {f"{source}.num_batches_tracked": ()},
        {f"{name}.{ours}": (f"{source}.{leaf}", (0,)) for ours, leaf in names.items()},
    )


def recurrent(name: str, source: str, width: int, _: int) -> Layer:
    return Layer(
        f"{name}: Of_{name}",
        f"(x: f32[2, {width}]) -> (y: f32[2, {3 * width}]) = {name}(x)",
        {f"{source}.weight_{part}_l0": (3 * width, width) for part in ("ih", "hh")},
        {f"{name}.weight_{p}": (f"{source}.weight_{p}_l0", (1, 0)) for p in ("ih", "hh")},
        f"layer Of_{name} {{\n  param weight_ih: f32[{width}, {3 * width}] = 0.0\n"
        f"  param weight_hh: f32[{width}, {3 * width}] = 0.0\n"
        f"  fn forward(x: f32[2, {width}]) -> f32[2, {3 * width}] = "
        "x @ weight_ih + x @ weight_hh\n}\n",
    )


LAYERS = (
    linear, transposed, convolution, image_convolution, embedding, batch_norm, recurrent,
)  # fmt: skip


def make_case(seed: int) -> Case:
    """Sizes are few, so that many tensors have one shape and many matrices are square."""
    rng = random.Random(seed)
    names = rng.sample(WORDS, rng.randint(1, 6))
    others = [word for word in WORDS if word not in names]
    rng.shuffle(others)
    same = rng.choice([0.0, 0.6, 1.0])
    sources = [name if rng.random() < same else others.pop() for name in names]
    if rng.random() < 0.3:
        sources = [f"net.{2 * at}" for at in range(len(names))]
    prefix = rng.choice(["", "model.", "encoder."])
    layers = [
        rng.choice(LAYERS)(name, prefix + source, rng.choice([3, 4]), rng.choice([3, 4]))
        for name, source in zip(names, sources, strict=True)
    ]
    text = "\n".join(layer.definition for layer in layers) + "\nmodel M {\n"
    text += "".join(f"  {layer.declaration}\n" for layer in layers)
    text += "  state h: f32[3] = 0.0\n"
    text += "".join(f"  entry e{at}{layer.entry}\n" for at, layer in enumerate(layers)) + "}\n"
    tensors = [item for layer in layers for item in layer.sources.items()]
    rng.shuffle(tensors)
    wanted = {name: found for layer in layers for name, found in layer.wanted.items()}
    return Case(text, dict(tensors), wanted)


def judge(case: Case, folder: Path) -> Counter[tuple[str, ...]]:
    """How many tensors were matched in which way, and which of them are wrong."""
    (folder / "m.wg").write_text(case.text)
    program = read_program(folder / "m.wg")[1]
    shapes = {name: tensor.type.shape for name, tensor in own_tensors(program).items()}
    states = {name: shape for name, shape in shapes.items() if name not in program.params}
    params = {name: shapes[name] for name in program.params}
    proposal = propose(Model(params, states, uses(program)), case.sources)
    counts = Counter(
        (pair.found, wrong(pair, case), "assumed" if pair.assumed else "")
        for pair in proposal.pairs
    )
    counts["undecided",] = len(proposal.undecided)
    counts["missing",] = len(proposal.missing)
    return counts


def wrong(pair: Pair, case: Case) -> str:
    source, order = case.wanted[pair.target]
    if pair.source != source:
        return "another tensor"
    shape = case.sources[source]
    axes = pair.transform.axes or tuple(range(len(shape)))
    real = [[axis for axis in some if shape[axis] != 1] for some in (axes, order)]
    return "" if real[0] == real[1] and not pair.transform.flipped else "another order"


def silently(counts: Counter[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Wrong matches that were neither made by shape or order only nor reported as assumed."""
    return [key for key in counts if key[1:2] not in ((), ("",)) and key[0] == NAME and not key[2]]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_wrong_silently(seed: int, tmp_path: Path) -> None:
    case = make_case(seed)
    counts = judge(case, tmp_path)
    assert not silently(counts), case
    if any("net.0." in name for name in case.sources):
        assert not any(key[:2] == (ORDER, "another tensor") for key in counts), case


def main(first: int, last: int) -> int:
    total: Counter[tuple[str, ...]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            counts = judge(make_case(seed), Path(folder))
            total += counts
            if silently(counts):
                print(f"seed {seed}: {silently(counts)}")
    for key, count in sorted(total.items()):
        print(f"{count:7,}  {'  '.join(part for part in key if part)}")
    return 1 if silently(total) else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
