"""What editors are told about a program: the checker's own results, looked up by place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from adapters import ROOT
from wgcc.elaborate.builtins import BUILTINS
from wgcc.errors import Source
from wgcc.language_service.analysis import Analysis, analyse
from wgcc.language_service.completion import complete
from wgcc.language_service.fixes import apply_edits
from wgcc.language_service.hover import hover
from wgcc.language_service.inlay_hints import inlay_hints
from wgcc.language_service.outline import folding_ranges, outline, semantic_tokens
from wgcc.language_service.reference import optimizer_settings, reference
from wgcc.language_service.rename import (
    CannotRename,
    definition,
    path_of,
    references,
    rename,
    weights_map,
)
from wgcc.language_service.signatures import signature_help
from wgcc.ops.optimizers.kind import SETTINGS
from wgcc.syntax.tree_text import walk

TEXT = """\
/// About the file.
dim B = 4, D = 8
const gain = 0.5

/// Two maps.
layer Pair[W](p: f32 = 0.1) {
  a: Linear[W, W]
  param scale: f32[W] ~ normal(0.02)

  /// One, then the other.
  fn forward[N](x: f32[N, W]) -> f32[N, W] = x |> a |> dropout(p) |> tanh

  fn scaled[N](x: f32[N, W]) -> f32[N, W] = forward(x) * scale
}

model M {
  pairs[2]: Pair[D](p = 0.2)
  optimizer opt: adam { lr = 1e-3 }

  entry train(x: f32[B, D], y: f32[B, D]) -> (loss: f32) {
    for pair in pairs { x = pair.scaled(x) }
    left, right = chunk(x, 2, axis = 1)
    loss = gain * mse(x, y) + mean(left * right)
    minimize loss with opt
    return loss
  }
}
"""


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analyse(Source("m.wg", TEXT))


def at(text: str, within: str = "", after: int = 0) -> int:
    """The place of `text` inside the first occurrence of `within`."""
    start = TEXT.index(within or text)
    return TEXT.index(text, start) + after


def test_the_program_has_no_problems(analysis: Analysis) -> None:
    assert [item.message for item in analysis.diagnostics] == []


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (at("tanh"), ("tanh(x)", "hyperbolic tangent", "`tanh(0.0) == 0.0`")),
        (at("mse"), ("mse(prediction, target", "PyTorch: `F.mse_loss`")),
        (at("Linear"), ("Linear[I, O](bias = true)", "PyTorch: `nn.Linear`")),
        (at("Pair", "pairs[2]"), ("layer Pair[W](p: f32 = 0.1)", "Two maps.")),
        (at("x", "chunk(x"), ("x: f32[B, D]",)),
        (at("left", "left, right"), ("left: f32[B, D/2]",)),
        (at("loss", "minimize loss", 4), ("loss: f32",)),
        (at("scaled", "pair.scaled"), ("fn scaled[N](x: f32[N, W]) -> f32[N, W]",)),
        (at("D", "pairs[2]: Pair[D"), ("dim D = 8",)),
        (at("gain", "gain *"), ("const gain = 0.5", "gain: 0.5")),
        (at("lr"), ("learning rate",)),
    ],
)
def test_hover(analysis: Analysis, offset: int, expected: tuple[str, ...]) -> None:
    found = hover(analysis, offset)
    assert found is not None
    for part in expected:
        assert part in found.markdown


@pytest.mark.parametrize("place", ["About the file", "{\n    for", "= chunk"])
def test_there_is_nothing_to_say_about_punctuation(analysis: Analysis, place: str) -> None:
    assert hover(analysis, TEXT.index(place)) is None


def test_shapes_are_shown_after_pipes_and_assignments(analysis: Analysis) -> None:
    hints = inlay_hints(analysis, 0, len(TEXT))
    shown = {(TEXT[: h.offset].splitlines()[-1].split()[-1], h.text.strip(" :")) for h in hints}
    assert ("a", "f32[N, W]") in shown
    assert ("dropout(p)", "f32[N, W]") in shown
    assert ("right", "f32[B, D/2]") in shown
    assert ("loss", "f32") in shown
    begin, end = at("left, right"), at("loss = gain")
    assert len(inlay_hints(analysis, begin, end)) == 2


def labels(analysis: Analysis, offset: int) -> set[str]:
    return {item.label for item in complete(analysis, offset)}


def test_completion_offers_what_is_visible(analysis: Analysis) -> None:
    inside = labels(analysis, at("mse"))
    assert {
        "x",
        "y",
        "left",
        "loss",
        "opt",
        "pairs",
        "gain",
        "D",
        "Pair",
        "relu",
        "Linear",
        "for",
    } <= inside
    assert "scale" not in inside
    assert {"scale", "W", "N"} <= labels(analysis, at("forward(x) *"))
    assert labels(analysis, at("scaled(x) }")) == {"forward", "scaled", "a", "scale"}
    assert {"adam", "adamw"} <= labels(analysis, at("adam", "opt: adam", 2))
    assert {"betas", "lr"} <= labels(analysis, at("lr"))
    assert labels(analysis, at("About the file")) == set()


def test_completion_offers_parameters_in_strings() -> None:
    text = TEXT.replace("with opt\n", 'with opt over "pairs.*"\n')
    found = complete(analyse(Source("m.wg", text)), text.index("pairs.*") + 3)
    assert "pairs.1.scale" in {item.label for item in found}


def test_completion_works_in_a_broken_line() -> None:
    text = TEXT.replace("loss = gain * mse(x, y) + mean(left * right)", "loss = gain * pairs[0].")
    found = complete(analyse(Source("m.wg", text)), text.index("pairs[0].") + len("pairs[0]."))
    assert "scaled" in {item.label for item in found}


@pytest.mark.parametrize(
    ("offset", "signature", "active"),
    [
        (at("axis = 1", "chunk"), "chunk(x, ", 2),
        (at(", 2, axis"), "chunk(x, ", 0),
        (at("W]", "Linear[W, W]"), "Linear[I, O]", 1),
        (at("0.2"), "layer Pair[W](p: f32 = 0.1)", 0),
    ],
)
def test_signature_help(analysis: Analysis, offset: int, signature: str, active: int) -> None:
    found = signature_help(analysis, offset)
    assert found is not None and found.signature.startswith(signature)
    assert found.active == active


def test_named_arguments_choose_their_parameter() -> None:
    text = "const c = sum(x, keep = true)"
    found = signature_help(analyse(Source("m.wg", text)), text.index("true"))
    assert found is not None and found.parameters[found.active].startswith("keep")


def test_definitions_and_references(analysis: Analysis) -> None:
    span = definition(analysis, at("scaled", "pair.scaled"))
    assert span is not None and span.start == at("scaled", "fn scaled")
    lines = [use.line for use in references(analysis, at("D = 8"))]
    assert lines == [2, 17, 20, 20]
    assert [use.line for use in references(analysis, at("p:"))] == [6, 11, 17]
    assert references(analysis, at("tanh")) == []


def test_definitions_in_other_files(analysis: Analysis, tmp_path: Path) -> None:
    library = definition(analysis, at("Linear"))
    assert library is not None
    assert path_of(library.source, tmp_path) == ROOT / "grammar/std/nn.wg"
    (tmp_path / "parts.wg").write_text("\nfn twice[N](x: f32[N]) -> f32[N] = x + x\n")
    root = tmp_path / "m.wg"
    text = 'import twice from "parts.wg"\ntest "t" { y = twice(ones(f32[2])) }\n'
    other = definition(analyse(Source(str(root), text, str(root))), text.index("twice(ones"))
    assert other is not None and other.line == 2
    assert path_of(other.source, root) == tmp_path / "parts.wg"


@pytest.mark.parametrize(
    ("offset", "new", "changed"),
    [
        (at("D = 8"), "Width", "f32[B, Width]"),
        (at("Pair", "layer Pair"), "Two", "pairs[2]: Two[D]"),
        (at("scale:"), "factor", "forward(x) * factor"),
        (at("left, "), "first", "mean(first * right)"),
        (at("p: f32"), "rate", "Pair[D](rate = 0.2)"),
        (at("scaled[N]"), "grown", "pair.grown(x)"),
        (at("train"), "learn", "entry learn("),
    ],
)
def test_renaming(analysis: Analysis, offset: int, new: str, changed: str) -> None:
    text = apply_edits(TEXT, rename(analysis, offset, new))
    assert changed in text
    assert not analyse(Source("m.wg", text)).diagnostics.items


@pytest.mark.parametrize(
    ("offset", "new", "why"),
    [
        (at("D = 8"), "B", "defined already"),
        (at("D = 8"), "for", "not a name"),
        (at("D = 8"), "2x", "not a name"),
        (at("train"), "fit", "that would change the program"),
        (at("tanh"), "sin", "only what this file defines"),
    ],
)
def test_names_that_are_refused(analysis: Analysis, offset: int, new: str, why: str) -> None:
    with pytest.raises(CannotRename, match=why):
        rename(analysis, offset, new)


def test_renamed_parameters_have_rules_for_older_weights(analysis: Analysis) -> None:
    def rules(offset: int) -> list[str]:
        return weights_map(analysis, rename(analysis, offset, "grown"))

    assert rules(at("scale:")) == ["pairs.*.grown <- pairs.*.scale"]
    assert "grown.*.scale <- pairs.*.scale" in rules(at("pairs[2]"))
    assert rules(at("D = 8")) == []


def test_files_that_import_a_name_are_changed_too(tmp_path: Path) -> None:
    (tmp_path / "parts.wg").write_text("fn twice[N](x: f32[N]) -> f32[N] = x + x\n")
    parts = analyse(Source(str(tmp_path / "parts.wg"), (tmp_path / "parts.wg").read_text()))
    text = 'import twice from "parts.wg"\ntest "t" { y = twice(ones(f32[2])) }\n'
    user = Source("m.wg", text, str(tmp_path / "m.wg"))
    stranger = Source("o.wg", "fn twice(x: f32) -> f32 = x\n", str(tmp_path / "o.wg"))
    edits = rename(parts, 3, "double", [user, stranger])
    assert {span.source for span, _ in edits} == {parts.source, user}
    changed = apply_edits(text, [edit for edit in edits if edit[0].source is user])
    assert changed == text.replace("twice", "double")


def test_members_that_other_files_use_are_left_to_their_authors(tmp_path: Path) -> None:
    file = tmp_path / "parts.wg"
    file.write_text("layer L[D] { param w: f32[D] ~ normal(0.1) }\n")
    parts = analyse(Source(str(file), file.read_text()))
    text = 'import L from "parts.wg"\nmodel M { l: L[2]; entry e() -> (y: f32[2]) = l.w }\n'
    with pytest.raises(CannotRename, match="as a member"):
        rename(
            parts,
            file.read_text().index("w:"),
            "weight",
            [Source("m", text, str(tmp_path / "m.wg"))],
        )


def test_selectors_are_not_changed_silently() -> None:
    text = TEXT.replace("with opt\n", 'with opt over "*.scale"\n')
    with pytest.raises(CannotRename, match="by hand"):
        rename(analyse(Source("m.wg", text)), text.index("scale:"), "factor")


def test_outline_and_folds(analysis: Analysis) -> None:
    items = {item.name: item for item in outline(analysis)}
    assert list(items) == ["B", "D", "gain", "Pair", "M"]
    assert [child.name for child in items["M"].children] == ["pairs", "opt", "train"]
    folds = folding_ranges(analysis)
    assert (5, 13, "region") in folds and (19, 25, "region") in folds


def test_every_name_has_a_colour(analysis: Analysis) -> None:
    kinds = {(TEXT[start : start + size], kind) for start, size, kind in semantic_tokens(analysis)}
    expected = {
        ("W", "size"), ("D", "dim"), ("Pair", "layer"), ("scaled", "fn"), ("tanh", "built-in"),
        ("Linear", "standard layer"), ("scale", "param"), ("left", "local"), ("gain", "const"),
    }  # fmt: skip
    assert expected <= kinds


def test_pages_describe_every_built_in_and_setting() -> None:
    assert set(BUILTINS) <= set(reference())
    assert set(SETTINGS) <= set(optimizer_settings())
    assert all(entry.meaning for entry in reference().values())


def test_no_text_is_too_broken() -> None:
    """Editors ask about texts that are being written."""
    rng = random.Random(3)
    paths = sorted((ROOT / "tests" / "filetests").rglob("*.wg"))
    for path in rng.sample(paths, 30):
        text = path.read_text()
        for _ in range(3):
            start = rng.randrange(len(text) + 1)
            end = start + rng.randrange(20)
            text = text[:start] + rng.choice((*"{}()[],.:=|\n", "fn ", "layer", '"')) + text[end:]
        broken = analyse(Source(str(path), text, str(path)))
        for offset in (rng.randrange(len(text) + 1) for _ in range(4)):
            complete(broken, offset)
            hover(broken, offset)
            signature_help(broken, offset)
            definition(broken, offset)
        inlay_hints(broken, 0, len(text))
        folding_ranges(broken)
        for item in outline(broken):
            assert 0 <= item.span.start <= item.name_span.start < item.span.end <= len(text)


def test_every_example_is_analysed_like_the_check() -> None:
    """Also when it is cut off in the middle, as a text that is being written."""
    for path in sorted((ROOT / "examples").rglob("*.wg")):
        text = path.read_text()
        whole = analyse(Source(str(path), text, str(path)))
        assert not whole.diagnostics.errors and not whole.problem
        assert whole.observations
        for use in (use for symbol in whole.names.everything() for use in symbol.uses):
            assert use.text.isidentifier()
        half = analyse(Source(str(path), text[: len(text) // 2], str(path)))
        assert [node for node in walk(half.tree)]
        complete(half, len(half.source.text))
        semantic_tokens(half)
        outline(half)
