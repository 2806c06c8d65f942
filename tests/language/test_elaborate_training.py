"""What `optimizer`, `minimize`, `frozen` and `replace` become in a program."""

from __future__ import annotations

import pytest

from elaborated import only, problems, program
from wgcc.errors import WgError
from wgcc.ir.text import graph_text

OPTIMIZED = """
model Net {
  a: Linear[2, 3]
  frozen b: Linear[3, 1]
  c: Linear[2, 2]
  optimizer opt: adamw {
    lr = 0.1 / step
    betas = (0.9, 0.95)
    weight_decay = 0.1
    accumulate = 2
    group if axes < 2 { weight_decay = 0.0 }
    group "a.*" { lr_scale = 0.5 }
  }
  entry train(x: f32[4, 2], rate: f32) -> (loss: f32, norm: f32, lr: f32, step: f32) {
    loss = mean(b(a(x)))
    minimize loss with opt(lr = rate)
    return loss, opt.grad_norm, opt.lr, opt.step
  }
  entry scheduled(x: f32[4, 2]) -> (w: f32[2, 3]) {
    minimize mean(b(a(x))) with opt over "*.w"
    return a.w
  }
  entry run(x: f32[2]) -> (y: f32[2]) = c(x)
}
"""


def test_minimize_names_what_is_trained_and_how() -> None:
    graph = program(OPTIMIZED).entries["train"]
    node = only(graph, "minimize")
    assert [value.name for value in node.inputs] == ["loss", "rate", "a.w", "a.b"]
    assert node.attrs["dynamic"] == ("lr",)
    assert node.attrs["settings"] == {"betas": (0.9, 0.95), "weight_decay": 0.1, "accumulate": 2}
    assert node.attrs["groups"] == (
        ((0,), {"lr_scale": 0.5}),
        ((1,), {"lr_scale": 0.5, "weight_decay": 0.0}),
    )
    assert (node.attrs["optimizer"], node.attrs["kind"]) == ("opt", "adamw")
    assert graph.outputs["norm"] == node.outputs[-1] and graph.outputs["lr"].name == "rate"
    assert graph.writes == {"a.w": node.outputs[0], "a.b": node.outputs[1]}


def test_schedule_reads_the_step_and_new_parameters_are_seen() -> None:
    found = program(OPTIMIZED)
    graph = found.entries["scheduled"]
    node = only(graph, "minimize")
    assert [value.name for value in node.inputs[2:]] == ["a.w"]
    assert graph.outputs["w"] == graph.writes["a.w"]
    assert [value.name for value in graph.state] == ["opt/opt/step"]
    assert found.state["opt/opt/step"].type.dtype == "u32"
    trainable = [name for name, tensor in found.params.items() if tensor.trainable]
    assert trainable == ["a.w", "a.b", "c.w", "c.b"]


def test_two_optimizers_in_one_entry() -> None:
    found = program("""
model Net {
  a: Linear[2, 2]
  b: Linear[2, 2]
  optimizer oa: sgd { lr = 0.1 }
  optimizer ob: sgd { lr = 0.1 }
  entry train(x: f32[2]) -> (la: f32, lb: f32) {
    la = sum(b(a(x)))
    lb = sum(a(b(x)) ** 2)
    minimize la with oa over "a.*"
    minimize lb with ob over "b.*"
    minimize_me = sum(a(x))
    return la, minimize_me
  }
}
""")
    graph = found.entries["train"]
    assert sorted(graph.writes) == ["a.b", "a.w", "b.b", "b.w"]
    last = graph.nodes[-2]
    assert last.op == "add" and "a.w.new" in {v.name for n in graph.nodes for v in n.inputs}


def test_replace_keeps_names_and_trains_only_what_is_new() -> None:
    found = program("""
model Base {
  blocks[2]: Linear[4, 4](bias = false)
  fn forward(x: f32[4]) -> f32[4] {
    for block in blocks { x = block(x) }
    return x
  }
}
model Tuned {
  frozen base: Base
  replace "base.blocks.1" with Lora(rank = 2)
  entry run(x: f32[4]) -> (y: f32[4]) = base(x)
}
""", model="Tuned")  # fmt: skip
    assert {name: tensor.trainable for name, tensor in found.params.items()} == {
        "base.blocks.0.w": False,
        "base.blocks.1.w": False,
        "base.blocks.1.lora_a": True,
        "base.blocks.1.lora_b": True,
    }


SET = """
model M {
  l: Linear[1, 1]
  optimizer opt: sgd { lr = warmup_cosine(step, peak = 0.1, warmup = 1, total = 9) }
  entry train(x: f32[4, 1]) -> (rate: f32) {
    minimize mean(l(x)) with opt
    return opt.lr
  }
}
"""


def test_settings_of_optimizers_from_outside() -> None:
    given = program(SET, sizes={"opt.lr": 0.25, "opt.momentum": 0.5})
    written = SET.replace("warmup_cosine(step, peak = 0.1, warmup = 1, total = 9)", "0.25")
    written = written.replace("sgd {", "sgd { momentum = 0.5;")
    assert graph_text(given.entries["train"]) == graph_text(program(written).entries["train"])
    with pytest.raises(WgError, match=r"no dim or const lr to set in .*; did you mean opt\.lr"):
        program(SET, sizes={"lr": 0.25})
    with pytest.raises(WgError, match=r"no optimizer op to set op\.lr"):
        program(SET, sizes={"op.lr": 0.25})
    assert problems(SET, sizes={"opt.rl": 1})[0] == "WG0218 4 unknown setting of sgd: `rl`"
