"""`wgcc.compile`: models in memory, kept by content; their errors, bundles and copies."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import numpy as np
import pytest

import wgcc
from wgcc import in_memory
from wgcc_runtime.errors import WgccWarning

LINE = """const rate = 0.1
dim B = 8
model Line {
  l: Linear[1, 1]
  optimizer opt: sgd { lr = rate }
  entry train(x: f32[B, 1], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(l(x), y)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, 1]) -> (y: f32[B, 1]) = l(x)
}
"""
X = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
DATA = {"x": X, "y": 3 * X + 1}


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[in_memory.Request]:
    """What is compiled from here on, with nothing kept before."""
    monkeypatch.setattr(in_memory, "_results", type(in_memory._results)())
    made: list[in_memory.Request] = []
    compile_ = in_memory._compile

    def counted(request: in_memory.Request) -> in_memory.Result:
        made.append(request)
        return compile_(request)

    monkeypatch.setattr(in_memory, "_compile", counted)
    return made


def loss(model: wgcc.in_memory.CompiledModel) -> float:
    return model.fit(DATA, steps=20, every=20).loss


def test_a_text_is_compiled_once(compilations: list[in_memory.Request]) -> None:
    first, second = (wgcc.compile(LINE, device="wasm") for _ in range(2))
    assert loss(first) > 0 and second.steps_done == 0
    assert len(compilations) == 1
    smaller = wgcc.compile(LINE, sizes={"B": 4}, device="wasm")
    assert smaller.entry("train").inputs["x"].shape == (4, 1)
    assert len(compilations) == 2


def test_learning_rates_are_one_compilation(
    compilations: list[in_memory.Request], tmp_path: Path
) -> None:
    models = {
        rate: wgcc.compile(LINE, constants={"rate": rate}, device="wasm")
        for rate in (0.01, 0.1, 0.3)
    }
    assert len(compilations) == 1
    losses = {rate: loss(model) for rate, model in models.items()}
    written = {}
    for rate in models:
        text = LINE.replace("rate = 0.1", f"rate = {rate}")
        written[rate] = loss(wgcc.compile(text, device="wasm"))
    assert losses == written
    model = models[0.3]
    model.reset()
    assert loss(model) == losses[0.3]
    copy = pickle.loads(pickle.dumps(model))
    copy.reset()
    assert loss(copy) == losses[0.3]
    model.parameters["rate"] = 0.0
    before = model.params()
    model.train(**DATA)
    assert all(np.array_equal(before[name], model.params()[name]) for name in before)


def test_live_settings_are_not_in_checkpoints_and_bundles(tmp_path: Path) -> None:
    model = wgcc.compile(LINE, constants={"rate": 0.3}, device="wasm")
    first = loss(model)
    model.save(tmp_path / "line.safetensors")
    model.save(tmp_path / "bundle")
    bundle = wgcc.load(tmp_path / "bundle", device="wasm")
    assert "rate" in model.state() and "rate" not in bundle.state()
    assert np.array_equal(bundle.predict(X)["y"], model.predict(X)["y"])
    other = wgcc.compile(LINE, constants={"rate": 0.3}, device="wasm")
    other.load(tmp_path / "line.safetensors")
    bundle.load(tmp_path / "line.safetensors")
    assert other.steps_done == bundle.steps_done == 20
    assert loss(other) == loss(bundle) < first


def test_a_const_that_others_use_is_known_at_compile_time(
    compilations: list[in_memory.Request],
) -> None:
    text = LINE.replace("loss = mse(l(x), y)", "loss = rate * mse(l(x), y)")
    losses = [
        float(wgcc.compile(text, constants={"rate": rate}, device="wasm").train(**DATA)["loss"])
        for rate in (1.0, 2.0)
    ]
    assert losses[1] == pytest.approx(2 * losses[0]) and len(compilations) == 2


def test_a_setting_that_must_be_known_is_compiled_in(
    compilations: list[in_memory.Request],
) -> None:
    text = LINE.replace("sgd { lr = rate }", "sgd { lr = 0.1; momentum = rate }")
    models = [wgcc.compile(text, constants={"rate": 0.5}, device="wasm") for _ in range(2)]
    assert loss(models[0]) == loss(models[1])
    written = wgcc.compile(text.replace("rate = 0.1", "rate = 0.5"), device="wasm")
    assert loss(written) == loss(wgcc.compile(text, constants={"rate": 0.5}, device="wasm"))


def test_settings_of_optimizers_by_name(
    compilations: list[in_memory.Request], tmp_path: Path
) -> None:
    for text in (LINE, LINE.replace("lr = rate", "")):
        del compilations[:]
        models = [
            wgcc.compile(text, constants={"opt.lr": rate}, device="wasm") for rate in (0.02, 0.3)
        ]
        assert len(compilations) == 1
        losses = [loss(model) for model in models]
        numbers = ("0.02", "0.3")
        assert losses == [
            loss(wgcc.compile(LINE.replace("lr = rate", f"lr = {number}"), device="wasm"))
            for number in numbers
        ]
    models[1].save(tmp_path / "bundle")
    assert "lr = 0.3" in (tmp_path / "bundle" / "model.wg").read_text()
    with pytest.raises(wgcc.CompileError, match=r"no optimizer optt to set optt.lr; did you mean"):
        wgcc.compile(LINE, constants={"optt.lr": 0.1})
    with pytest.raises(wgcc.CompileError, match="WG"):
        wgcc.compile(LINE, constants={"opt.lrr": 0.1})


def test_several_live_numbers(compilations: list[in_memory.Request]) -> None:
    text = "const decay = 0.0\n" + LINE.replace("lr = rate", "lr = rate; weight_decay = decay")
    results = []
    for rate, decay in ((0.1, 0.0), (0.1, 0.5), (0.2, 0.5)):
        model = wgcc.compile(text, constants={"rate": rate, "decay": decay}, device="wasm")
        results.append(loss(model))
    assert len(set(results)) == 3 and len(compilations) == 1


def test_a_setting_that_no_entry_reads() -> None:
    model = wgcc.compile(LINE, constants={"rate": 0.5}, entries=["predict"], device="wasm")
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(X)["y"], model.predict(X)["y"])


def test_the_bundle_is_that_of_a_build(tmp_path: Path) -> None:
    path = tmp_path / "model.wg"
    path.write_text(LINE)
    wgcc.compile(path, device="wasm").save(tmp_path / "saved")
    from wgcc.compiler import compile_file

    compile_file(path).write(tmp_path / "built")
    names = sorted(p.relative_to(tmp_path / "built") for p in (tmp_path / "built").rglob("*"))
    assert names == sorted(
        p.relative_to(tmp_path / "saved") for p in (tmp_path / "saved").rglob("*")
    )
    for name in names:
        if (tmp_path / "built" / name).is_file():
            assert (tmp_path / "built" / name).read_bytes() == (
                tmp_path / "saved" / name
            ).read_bytes()


def test_imported_files_count(tmp_path: Path, compilations: list[in_memory.Request]) -> None:
    (tmp_path / "parts.wg").write_text("fn scaled(x: f32[..]) -> f32[..] = 2.0 * x\n")
    main = tmp_path / "model.wg"
    main.write_text(
        'import scaled from "parts.wg"\n'
        "model M { entry run(x: f32[2]) -> (y: f32[2]) = scaled(x) }\n"
    )
    assert wgcc.compile(main, device="wasm").run([1.0, 2.0])["y"].tolist() == [2.0, 4.0]
    (tmp_path / "parts.wg").write_text("fn scaled(x: f32[..]) -> f32[..] = 3.0 * x\n")
    assert wgcc.compile(str(main), device="wasm").run([1.0, 2.0])["y"].tolist() == [3.0, 6.0]
    assert len(compilations) == 2


def test_an_error_is_the_diagnostic() -> None:
    with pytest.raises(wgcc.CompileError) as caught:
        wgcc.compile(LINE.replace("l(x), y", "q(x), y"))
    text = str(caught.value)
    assert text.startswith("error[WG0201]: unknown name `q`\n --> <text>:7:16")
    assert "nothing was written" not in text
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("wgcc/in_memory.py") == shown.count('File "') - 1 == 1
    assert caught.value._repr_html_().startswith("<pre>error[WG0201]")
    assert caught.value._render_traceback_()[0] == "error[WG0201]: unknown name `q`"
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


@pytest.mark.parametrize(
    ("program", "sizes", "constants", "message"),
    [
        ("missing.wg", {}, {}, "cannot read missing.wg: no such file"),
        (LINE, {"C": 1}, {}, "there is no dim or const C to set"),
        (LINE, {"B": 1.5}, {}, "a dim must be a whole number, but this is the number 1.5"),
        (LINE, {"B": 0}, {}, "a dim must be positive"),
        (LINE, {"B": "8"}, {}, "B is '8', not a number"),
        (LINE, {"B": 8}, {"B": 8}, "B is in `sizes` and in `constants`"),
        (f"const k = [1, 2]\n{LINE}", {"k": 1}, {}, "`k` cannot be set"),
    ],
)
def test_wrong_arguments(
    program: str, sizes: dict[str, float], constants: dict[str, float], message: str
) -> None:
    with pytest.raises(wgcc.CompileError) as caught:
        wgcc.compile(program, sizes=sizes, constants=constants)
    assert message in str(caught.value)


def test_warnings_are_warnings() -> None:
    text = LINE.replace("l: Linear[1, 1]", "l: Linear[1, 1]\n  optimizer spare: sgd { lr = 0.1 }")
    with pytest.warns(WgccWarning, match="WG0907"):
        wgcc.compile(text, device="wasm")


def test_numbers_of_numpy_are_numbers(compilations: list[in_memory.Request]) -> None:
    sizes = {"B": np.int64(4)}
    model = wgcc.compile(LINE, sizes=sizes, constants={"rate": np.float32(0.5)}, device="wasm")
    assert model.entry("train").inputs["x"].shape == (4, 1)
    assert float(model.parameters["rate"]) == 0.5


def test_on_each_device(machine: object) -> None:
    assert loss(wgcc.compile(LINE, constants={"rate": 0.3}, device=machine)) < 0.1


def test_public_names() -> None:
    assert dir(wgcc) == ["CompileError", "__version__", "compile", "load"]
