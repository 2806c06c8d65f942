"""Which tensor of a file is which parameter: names decide; if they do not, this is reported."""

from __future__ import annotations

import random
import string

import pytest

from wgcc.importing.matching import NAME, ORDER, SHAPE
from wgcc.importing.names import read_name
from wgcc.importing.propose import Model, Proposal, propose
from wgcc.importing.transforms import Shape, Transform
from wgcc.importing.uses import PLAIN, Use

LAYERS = 11
VECTOR, MATRIX = (16,), (16, 16)
# Names of well-known collections, beside names of ours. `#` is the number of a layer.
COLLECTIONS = {
    "Llama of Hugging Face": """
        tok.w <- model.embed_tokens.weight
        blocks.#.norm1.g <- model.layers.#.input_layernorm.weight
        blocks.#.attn.wq.w <- model.layers.#.self_attn.q_proj.weight
        blocks.#.attn.wk.w <- model.layers.#.self_attn.k_proj.weight
        blocks.#.attn.wv.w <- model.layers.#.self_attn.v_proj.weight
        blocks.#.attn.wo.w <- model.layers.#.self_attn.o_proj.weight
        blocks.#.norm2.g <- model.layers.#.post_attention_layernorm.weight
        blocks.#.mlp.gate.w <- model.layers.#.mlp.gate_proj.weight
        blocks.#.mlp.up.w <- model.layers.#.mlp.up_proj.weight
        blocks.#.mlp.down.w <- model.layers.#.mlp.down_proj.weight
        norm.g <- model.norm.weight
        head.w <- lm_head.weight""",
    "Llama of Meta": """
        tok.w <- tok_embeddings.weight
        blocks.#.norm1.g <- layers.#.attention_norm.weight
        blocks.#.attn.wq.w <- layers.#.attention.wq.weight
        blocks.#.attn.wk.w <- layers.#.attention.wk.weight
        blocks.#.attn.wv.w <- layers.#.attention.wv.weight
        blocks.#.attn.wo.w <- layers.#.attention.wo.weight
        blocks.#.norm2.g <- layers.#.ffn_norm.weight
        blocks.#.mlp.gate.w <- layers.#.feed_forward.w1.weight
        blocks.#.mlp.up.w <- layers.#.feed_forward.w3.weight
        blocks.#.mlp.down.w <- layers.#.feed_forward.w2.weight
        norm.g <- norm.weight
        head.w <- output.weight""",
    "GPT-2": """
        tok.w <- transformer.wte.weight
        pos.w <- transformer.wpe.weight
        blocks.#.norm1.g <- transformer.h.#.ln_1.weight
        blocks.#.norm1.b <- transformer.h.#.ln_1.bias
        blocks.#.attn.qkv.w <- transformer.h.#.attn.c_attn.weight
        blocks.#.attn.out.w <- transformer.h.#.attn.c_proj.weight
        blocks.#.norm2.g <- transformer.h.#.ln_2.weight
        blocks.#.norm2.b <- transformer.h.#.ln_2.bias
        blocks.#.mlp.up.w <- transformer.h.#.mlp.c_fc.weight
        blocks.#.mlp.down.w <- transformer.h.#.mlp.c_proj.weight
        norm.g <- transformer.ln_f.weight
        norm.b <- transformer.ln_f.bias""",
    "BERT": """
        tok.w <- bert.embeddings.word_embeddings.weight
        pos.w <- bert.embeddings.position_embeddings.weight
        norm.g <- bert.embeddings.LayerNorm.weight
        blocks.#.attn.wq.w <- bert.encoder.layer.#.attention.self.query.weight
        blocks.#.attn.wk.w <- bert.encoder.layer.#.attention.self.key.weight
        blocks.#.attn.wv.w <- bert.encoder.layer.#.attention.self.value.weight
        blocks.#.attn.wo.w <- bert.encoder.layer.#.attention.output.dense.weight
        blocks.#.norm1.g <- bert.encoder.layer.#.attention.output.LayerNorm.weight
        blocks.#.mlp.up.w <- bert.encoder.layer.#.intermediate.dense.weight
        blocks.#.mlp.down.w <- bert.encoder.layer.#.output.dense.weight
        blocks.#.norm2.g <- bert.encoder.layer.#.output.LayerNorm.weight""",
    "OPT": """
        tok.w <- model.decoder.embed_tokens.weight
        pos.w <- model.decoder.embed_positions.weight
        blocks.#.attn.wq.w <- model.decoder.layers.#.self_attn.q_proj.weight
        blocks.#.attn.wk.w <- model.decoder.layers.#.self_attn.k_proj.weight
        blocks.#.attn.wv.w <- model.decoder.layers.#.self_attn.v_proj.weight
        blocks.#.attn.wo.w <- model.decoder.layers.#.self_attn.out_proj.weight
        blocks.#.norm1.g <- model.decoder.layers.#.self_attn_layer_norm.weight
        blocks.#.mlp.up.w <- model.decoder.layers.#.fc1.weight
        blocks.#.mlp.down.w <- model.decoder.layers.#.fc2.weight
        blocks.#.norm2.g <- model.decoder.layers.#.final_layer_norm.weight
        norm.g <- model.decoder.final_layer_norm.weight""",
    "nn.TransformerEncoder": """
        blocks.#.attn.out.w <- layers.#.self_attn.out_proj.weight
        blocks.#.mlp.up.w <- layers.#.linear1.weight
        blocks.#.mlp.down.w <- layers.#.linear2.weight
        blocks.#.norm1.g <- layers.#.norm1.weight
        blocks.#.norm2.g <- layers.#.norm2.weight""",
    "ResNet": """
        stem.w <- stem.weight
        stages.#.conv1.w <- layer#.conv1.weight
        stages.#.norm1.g <- layer#.bn1.weight
        stages.#.conv2.w <- layer#.conv2.weight
        stages.#.norm2.g <- layer#.bn2.weight
        fc.w <- module.fc.weight""",
    "recurrent": """
        cells.#.w_x <- rnn.weight_ih_l#
        cells.#.w_h <- rnn.weight_hh_l#
        cells.#.b_x <- rnn.bias_ih_l#
        cells.#.b_h <- rnn.bias_hh_l#""",
}


def rules(text: str) -> dict[str, str]:
    """Written out for all layers."""
    lines = [line.strip().replace("#", str(layer)) for layer in range(LAYERS) for line in
             text.strip().splitlines()]  # fmt: skip
    pairs = [line.split(" <- ") for line in lines]
    return {target: source for target, source in pairs}


def shape_of(name: str) -> Shape:
    one_axis = name.endswith((".g", ".b")) or name.rpartition(".")[2].startswith("b_")
    return VECTOR if one_axis else MATRIX


def found(proposal: Proposal, by: str = NAME) -> dict[str, str]:
    return {pair.target: pair.source for pair in proposal.pairs if pair.found == by}


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_names_of_well_known_models(collection: str) -> None:
    """All shapes are the same, so that they decide nothing."""
    expected = rules(COLLECTIONS[collection])
    ours = {name: shape_of(name) for name in expected}
    theirs = {source: ours[name] for name, source in sorted(expected.items(), key=lambda p: p[1])}
    proposal = propose(Model(ours), theirs)
    assert found(proposal) == expected
    assert not proposal.undecided and not proposal.missing and not proposal.unused


def words(rng: random.Random, count: int) -> list[str]:
    """Words that mean nothing and do not abbreviate each other."""
    made: set[str] = set()
    while len(made) < count:
        made.add("".join(rng.choice(string.ascii_lowercase) for _ in range(7)))
    return sorted(made)


def modules_of(names: list[str]) -> dict[str, Shape]:
    return {f"{name}.{leaf}": shape for name in names for leaf, shape in
            (("weight", MATRIX), ("bias", VECTOR))}  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_equal_shapes_are_never_matched_by_shape(seed: int) -> None:
    """Names in any order: equal ones are matched, all others are undecided."""
    rng = random.Random(seed)
    count = rng.randint(2, 7)
    ours, theirs = words(rng, count), words(rng, count)
    shared = rng.randint(0, count - 2)
    theirs[:shared] = ours[:shared]
    prefix = rng.choice(["", "model.", "net.module."])
    file = list(modules_of([prefix + name for name in theirs]).items())
    rng.shuffle(file)
    model = list(modules_of(ours).items())
    rng.shuffle(model)
    proposal = propose(Model(dict(model)), dict(file))
    known = modules_of(ours[:shared])
    assert found(proposal) == {name: prefix + name for name in known}
    assert len(proposal.pairs) == len(known)
    assert {item.target for item in proposal.undecided} == set(modules_of(ours[shared:]))
    for item in proposal.undecided:
        assert len(item.choices) == min(count - shared, 4)


def test_a_word_that_all_have_decides_nothing() -> None:
    """`ih` is a word of both cells, and `cell` is neither of them."""
    model = Model({"cell.w_ih": MATRIX, "cell.w_hh": MATRIX})
    file = {
        f"{cell}.weight_{part}_l0": MATRIX for cell in ("gru", "lstm2") for part in ("ih", "hh")
    }
    proposal = propose(model, file)
    assert not proposal.pairs
    assert {source for item in proposal.undecided for source, _ in item.choices} == set(file)


def test_the_only_one_of_its_shape_is_matched_and_reported() -> None:
    proposal = propose(
        Model({"a.w": (3, 5), "b.w": (5, 7)}), {"x.weight": (7, 5), "y.weight": (5, 3)}
    )
    assert found(proposal, SHAPE) == {"a.w": "y.weight", "b.w": "x.weight"}


def used_in_order(names: list[str]) -> Model:
    uses = {name: Use(PLAIN, (None, None), order=at) for at, name in enumerate(names)}
    return Model({name: MATRIX for name in sorted(names)}, uses=uses)


@pytest.mark.parametrize(
    ("ours", "theirs", "by"),
    [
        # nn.Sequential also counts activations: its 2 is not the model's 2.
        (["fs.0.w", "fs.1.w", "fs.2.w"], ["net.0.weight", "net.2.weight", "net.4.weight"], ORDER),
        (["fs.0.w", "fs.1.w", "fs.2.w"], ["fs.0.weight", "fs.2.weight", "fs.4.weight"], ORDER),
        (["up.w", "down.w", "a.w"], ["0.weight", "2.weight", "10.weight"], ORDER),
        # Lists count the same way, from 0 or from 1.
        (["fs.0.w", "fs.1.w", "fs.2.w"], ["fs.0.weight", "fs.1.weight", "fs.2.weight"], NAME),
        (["convs.0.w", "convs.1.w"], ["convs1.weight", "convs2.weight"], NAME),
        (["fc1.w", "fc2.w"], ["fc1.weight", "fc2.weight"], NAME),
        (["fc0.w", "fc2.w"], ["fc0.weight", "fc2.weight"], NAME),
    ],
)
def test_numbered_layers(ours: list[str], theirs: list[str], by: str) -> None:
    proposal = propose(used_in_order(ours), {name: MATRIX for name in sorted(theirs)})
    assert found(proposal, by) == dict(zip(ours, theirs, strict=True))


def test_a_model_with_fewer_layers() -> None:
    theirs = {f"h.{layer}.fc.weight": MATRIX for layer in range(12)}
    proposal = propose(Model({f"h.{layer}.fc.w": MATRIX for layer in range(4)}), theirs)
    assert found(proposal) == {f"h.{layer}.fc.w": f"h.{layer}.fc.weight" for layer in range(4)}
    assert len(proposal.unused) == 8
    # Of 0, 2, 4 and 6 it is not known which are meant.
    theirs = {f"h.{layer}.weight": MATRIX for layer in (0, 2, 4, 6)}
    proposal = propose(Model({"h.0.w": MATRIX, "h.1.w": MATRIX}), theirs)
    assert not proposal.pairs and len(proposal.undecided) == 2


def test_statistics_belong_to_a_norm_and_other_state_to_nobody() -> None:
    states = {"bn.run_mean": VECTOR, "bn.run_var": VECTOR, "h": VECTOR, "mean": VECTOR}
    model = Model({"bn.g": VECTOR, "bn.b": VECTOR, "l.w": MATRIX, "l.b": VECTOR}, states)
    file = {"l.weight": MATRIX, "l.bias": VECTOR, "x.bias": VECTOR, "x.running_mean": VECTOR}
    file |= {f"bn.{leaf}": VECTOR for leaf in ("weight", "bias", "running_mean", "running_var")}
    proposal = propose(model, {**file, "bn.num_batches_tracked": ()})
    filled = found(proposal)
    assert filled["bn.run_mean"] == "bn.running_mean" and filled["bn.run_var"] == "bn.running_var"
    assert "h" not in filled and not found(proposal, SHAPE) and "h" not in proposal.missing
    # Batch norm needs its statistics: unlike other state, they are reported as missing.
    proposal = propose(model, {name: file[name] for name in file if "running" not in name})
    assert set(proposal.missing) >= {"bn.run_mean", "bn.run_var"} and "h" not in proposal.missing


def test_weights_and_biases_are_of_the_same_module() -> None:
    model = Model({"p.w": MATRIX, "p.b": VECTOR, "q_out.w": MATRIX, "q_out.b": VECTOR})
    file = {"q_out.bias": VECTOR, "p.weight": MATRIX, "q_out.weight": MATRIX}
    proposal = propose(model, file)
    assert found(proposal)["q_out.b"] == "q_out.bias" and list(proposal.missing) == ["p.b"]


def test_thirds_of_a_packed_matrix() -> None:
    ours = {f"attn.w{part}.w": MATRIX for part in "qkv"} | {f"attn.w{p}.b": VECTOR for p in "qkv"}
    file: dict[str, Shape] = {"attn.in_proj_weight": (48, 16), "attn.in_proj_bias": (48,)}
    pairs = {pair.target: pair for pair in propose(Model(ours), file).pairs}
    assert [pairs[f"attn.w{part}.w"].transform.rows for part in "qkv"] == [
        (0, 16), (16, 32), (32, 48),
    ]  # fmt: skip
    assert pairs["attn.wk.b"].transform == Transform(rows=(16, 32))
    file = {"attn.c_attn.weight": (16, 48), "attn.c_attn.bias": (48,)}
    pairs = {pair.target: pair for pair in propose(Model(ours), file).pairs}
    assert pairs["attn.wk.w"].transform == Transform(columns=(16, 32))


def test_two_parameters_never_use_one_tensor_silently() -> None:
    model = Model({"fc.w": MATRIX, "fc.kernel": MATRIX})
    proposal = propose(model, {"fc.weight": MATRIX})
    assert not proposal.pairs
    assert [item.target for item in proposal.undecided] == ["fc.w", "fc.kernel"]


@pytest.mark.parametrize(
    ("name", "shape", "read"),
    [
        ("weight_ih_l0", MATRIX, (("ih", "#"), "weight")),
        ("rnn.bias_hh_l1", VECTOR, (("rnn", "hh", "#"), "bias")),
        ("in_proj_weight", MATRIX, (("qkv",), "weight")),
        ("encoder.layers.3.selfAttn.qProj.weight", MATRIX,
         (("encoder", "block", "#", "attn", "q"), "weight")),
        ("bn1.running_var", VECTOR, (("norm", "#"), "var")),
        ("mix.conv_b", VECTOR, (("mix", "conv"), "bias")),
        ("attn.bias", (1, 1, 9, 9), (("attn", "b"), "weight")),
        ("cls_token", (1, 1, 16), (("cls", "tok"), "")),
        ("", (), ((), "")),
        ("größe.weight", MATRIX, (("gr", "e"), "weight")),
        ("9" * 50, VECTOR, (("#",), "")),
    ],
)  # fmt: skip
def test_names_are_read(name: str, shape: Shape, read: tuple[tuple[str, ...], str]) -> None:
    assert (read_name(name, shape).words, read_name(name, shape).kind) == read
