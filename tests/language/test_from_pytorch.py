"""What hints for PyTorch's names suggest has PyTorch's numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pytorch_hints as hints
from hinted import corrected, fixes, problems
from pytorch_hints import expressions, inputs, lines, recorded
from wgcc.elaborate.builtins import BUILTINS
from wgcc.elaborate.from_pytorch import FUNCTIONS, LAYERS
from wgcc.errors import render_run
from wgcc.evaluate import evaluate
from wgcc.passes.autograd import autograd

RECORDED = recorded()


@pytest.mark.parametrize("expression", expressions())
def test_hints_give_the_numbers_of_pytorch(expression: str) -> None:
    text, program = corrected(expression)
    result = evaluate(program.entries["run"], inputs()).outputs["r"]
    wanted = np.array([float(number) for number in RECORDED[expression]["numbers"]])
    np.testing.assert_allclose(
        np.asarray(result, float).ravel(), wanted, rtol=1e-5, atol=1e-6, err_msg=text
    )


def test_every_function_with_code_is_tried() -> None:
    tried = set(re.findall(r"\w+", " ".join(expressions())))
    coded = {name for name, known in FUNCTIONS.items() if known.form}
    # Drawn at random, or no expression: below.
    assert coded - tried == {"multinomial", "rand_like", "randn_like", "backward", "range"}


def test_every_layer_with_code_is_tried() -> None:
    coded = {name for name, known in LAYERS.items() if known.form}
    assert coded == {text.split("(")[0].removeprefix("nn.") for text in lines(hints.LAYERS)}


@pytest.mark.parametrize("layer", lines(hints.LAYERS))
@pytest.mark.parametrize("member", ["f: {}", "f = {}"])
def test_layers_have_the_parameters_of_pytorch(member: str, layer: str) -> None:
    body = "entry run(x: f32[2]) -> (y: f32[2]) = x"
    ((_, text),) = fixes(f"model M {{\n  {member.format(layer)}\n  {body}\n}}\n")
    program, _, diagnostics = problems(text)
    assert program is not None, f"{text}{render_run(diagnostics)}"
    count = sum(np.prod(param.type.shape, dtype=int) for param in program.params.values())
    assert count == RECORDED[layer], text


@pytest.mark.parametrize("schedule", lines(hints.SCHEDULES))
def test_schedules_have_the_rates_of_pytorch(schedule: str) -> None:
    model = f"""model M {{
  param w: f32[2] = 1.0
  optimizer opt: sgd {{ lr = {hints.RATE} }}
  entry train() -> (loss: f32) {{
    scheduler = {schedule}
    loss = sum(w)
    minimize loss with opt
    return loss
  }}
}}
"""
    ((advice, _),) = fixes(model)
    rate = advice.split("write `lr = ")[1].split("`")[0]
    program, _, diagnostics = problems(
        f"model M {{\n  entry run(step: f32) -> (r: f32) = {rate}\n}}\n"
    )
    assert program is not None, render_run(diagnostics)
    rates = [
        float(evaluate(program.entries["run"], {"step": np.array(number + 1.0)}).outputs["r"])
        for number in range(hints.STEPS)
    ]
    np.testing.assert_allclose(rates, RECORDED[schedule], rtol=1e-5, atol=1e-7)


def test_multinomial_draws_by_probability() -> None:
    """`sample` takes logarithms: 0 is drawn in nine of ten rows, not in seven."""
    text = """model M {
  entry run() -> (r: i32[20000, 1]) {
    p = expand(f32([0.9, 0.1]), [20000, 2])
    return torch.multinomial(p, 1)
  }
}
"""
    ((advice, correct),) = fixes(text)
    assert "`sample(log(p))[.., new]`" in advice
    assert fraction_of_zeros(correct) == pytest.approx(0.9, abs=0.01)
    several = text.replace("20000, 1]", "20000, 3]").replace("p, 1)", "p, 3, replacement=True)")
    ((_, correct),) = fixes(several)
    assert fraction_of_zeros(correct) == pytest.approx(0.9, abs=0.01)


def fraction_of_zeros(text: str) -> float:
    program, _, diagnostics = problems(text)
    assert program is not None, render_run(diagnostics)
    graph = program.entries["run"]
    drawn = evaluate(graph, {value.name: np.zeros(value.shape) for value in graph.sources})
    return float(np.mean(drawn.outputs["r"] == 0))


def test_random_tensors_have_the_shape_of_another() -> None:
    for name in ("rand", "randn"):
        text = f"""dim B = 2
model M {{
  entry run(x: f32[B, 3]) -> (r: f32[B, 3]) = torch.{name}_like(x)
}}
"""
        ((_, correct),) = fixes(text)
        assert f"= {name}(f32[B, 3])" in correct
        assert problems(correct)[0] is not None


def test_training_has_one_statement() -> None:
    text = """model M {
  fc: Linear[2, 1]
  optimizer adam1: adam { lr = 1e-3 }
  entry train(x: f32[4, 2]) -> (loss: f32) {
    loss = mean(square(fc(x)))
    loss.backward()
    return loss
  }
}
"""
    ((_, correct),) = fixes(text)
    assert "    minimize loss with adam1\n" in correct
    assert problems(correct)[0] is not None


def test_python_ranges() -> None:
    for call, ours in (
        ("range(3)", "0..3"),
        ("range(1, 4)", "1..4"),
        ("range(0, 6, 2)", "0..6 step 2"),
    ):
        text = f"""model M {{
  entry run(x: f32[2]) -> (r: f32[2]) {{
    for i in {call} {{ x = x + 1.0 }}
    return x
  }}
}}
"""
        ((_, correct),) = fixes(text)
        assert f"in {ours} {{" in correct
        program, _, _ = problems(correct)
        assert program is not None
        result = evaluate(program.entries["run"], {"x": np.zeros(2)}).outputs["r"]
        assert result.tolist() == [3.0, 3.0]


def test_no_name_is_a_built_in() -> None:
    assert not FUNCTIONS.keys() & BUILTINS.keys()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_dropout_of_channels_drops_whole_channels(axes: int) -> None:
    shape = ", ".join(["8", *["3"] * axes, "16"])
    text = f"""model M {{
  drop: nn.Dropout{axes}d(0.25)
  param w: f32[1] = 1.0
  entry train(x: f32[{shape}]) -> (y: f32[{shape}]) {{
    w := w - 0.1 * grad(sum(w), w)
    return drop(x)
  }}
  entry run(x: f32[{shape}]) -> (y: f32[{shape}]) = drop(x)
}}
"""
    ((_, correct),) = fixes(text)
    program, _, diagnostics = problems(correct)
    assert program is not None, render_run(diagnostics)
    graph = autograd(program.entries["train"])
    values = {value.name: np.ones(value.shape) for value in graph.sources}
    y = evaluate(graph, values).outputs["y"]
    rows = y.reshape(8, -1, 16)
    assert np.all(rows == rows[:, :1])
    assert set(np.unique(rows.round(5))) == {0.0, round(1 / 0.75, 5)}
    assert 0.1 < np.mean(rows == 0) < 0.4
    still = evaluate(program.entries["run"], {"x": np.ones(y.shape)}).outputs["y"]
    assert np.all(still == 1)
