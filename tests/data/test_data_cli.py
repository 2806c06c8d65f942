"""`wgcc train` and `wgcc run` with files that people have: tables, pictures and texts."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

import wgcc_runtime
from wgcc.bundle.content import form_of_plan
from wgcc.bundle.folder import write_files
from wgcc.cli.group import cli
from wgcc.compiler import compile_file
from wgcc_runtime.weights import load_weights

FLOWERS = """
dim B = 4
dim Classes = 3
model Flowers {
  fc: Linear[2, Classes]
  optimizer opt: adam { lr = 0.05 }
  entry train(x: f32[B, 2], y: i32[B]) -> (loss: f32) {
    loss = cross_entropy(fc(x), y)
    minimize loss with opt
    return loss
  }
  entry eval(x: f32[B, 2], y: i32[B]) -> (loss: f32) { return cross_entropy(fc(x), y) }
  entry predict(x: f32[B, 2]) -> (p: f32[B, Classes]) { return softmax(fc(x), axis = -1) }
}
"""
HOUSES = """
dim B = 4
model Houses {
  fc: Linear[2, 1]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[B, 2], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(fc(x), y)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, 2]) -> (price: f32[B, 1]) { return fc(x) }
}
"""
LETTERS = """
dim B = 2
dim T = 4
model Letters {
  vocab = "\\n abc"
  table: Embedding[5, 5]
  optimizer opt: sgd { lr = 0.1 }
  entry train(ids: i32[B, T], next: i32[B, T]) -> (loss: f32) {
    loss = cross_entropy(table(ids), next)
    minimize loss with opt
    return loss
  }
  entry score(ids: i32[B, T]) -> (z: f32[B, T, 5]) { return table(ids) }
  entry decode(id: i32[1]) -> (next: i32) { return argmax(table(id)) }
}
"""
PICTURES = """
dim B = 2
model Pictures {
  fc: Linear[16, 2]
  optimizer opt: adam { lr = 0.1 }
  fn logits[N](image: f32[N, 1, 4, 4]) -> f32[N, 2] { return fc(reshape(image, [N, 16])) }
  entry train(image: f32[B, 1, 4, 4], label: i32[B]) -> (loss: f32) {
    loss = cross_entropy(logits(image), label)
    minimize loss with opt
    return loss
  }
  entry predict(image: f32[B, 1, 4, 4]) -> (p: f32[B, 2]) {
    return softmax(logits(image), axis = -1)
  }
}
"""


def wgcc(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def built(folder: Path, source: str, *options: object) -> Path:
    (folder / "model.wg").write_text(source)
    if options:
        result = wgcc("build", folder / "model.wg", "-o", folder / "bundle", *options)
        assert result.exit_code == 0, result.stderr
    else:
        write_files(bundle_files(folder / "model.wg", source), folder / "bundle")
    return folder / "bundle"


COMPILED: dict[str, dict[str, bytes]] = {}


def bundle_files(path: Path, source: str) -> dict[str, bytes]:
    """Each model is compiled once for all tests."""
    if source not in COMPILED:
        COMPILED[source] = compile_file(path).files()
    return COMPILED[source]


def train(bundle: Path, *options: object) -> Result:
    return wgcc("train", bundle, *options, "--device", "wasm", "--steps", 60)


def flowers_csv(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = ["id;size;weight;species"]
    for number in range(30):
        kind = number % 3
        size, weight = rng.normal(kind * 4, 0.5), rng.normal(2 - kind * 3, 0.5)
        cells = [
            str(number + 1),
            f"{size:.2f}".replace(".", ","),
            f"{weight:.2f}".replace(".", ","),
        ]
        lines.append(";".join([*cells, ("rose", "tulip", "aster")[kind]]))
    lines.append("31;;1,5;rose")
    (folder / "flowers.csv").write_text("\n".join(lines))
    return folder / "flowers.csv"


def test_classes_from_a_table(tmp_path: Path) -> None:
    bundle, table = built(tmp_path, FLOWERS), flowers_csv(tmp_path)
    result = train(bundle, table, "--scale", "--held-out", 0.2, "--json")
    assert result.exit_code == 0, result.stderr
    said = result.stderr.splitlines()
    tells = "alone tells `species` in every row: will it be known when the model predicts?"
    assert said[:7] == [
        f"{table}: 30 rows; x: size, weight; y: species (aster, rose, tulip)",
        "note: Numbers are written with a decimal comma.",
        "note: `id` numbers the rows and is left out.",
        f"note: `size` {tells}",
        f"note: `weight` {tells}",
        "left out: 1 row with no value in `size`, the first in line 32",
        "6 of 30 rows are held out; eval is on them",
    ]
    assert json.loads(result.stdout)["eval_loss"] < 0.5
    weights = tmp_path / "bundle-trained.safetensors"
    assert load_weights(weights)[1]["preparation"]["target"] == "y"

    rows = tmp_path / "rows.csv"
    rows.write_text("weight;size\n2,1;0,2\n-1,0;4,0\n")
    run = ("run", bundle, "predict", "-i", rows, "--weights", weights, "--device", "wasm")
    result = wgcc(*run)
    assert result.exit_code == 0, result.stderr
    assert [line.split()[-1] for line in result.stdout.splitlines()[1:]] == [
        "class", "rose", "tulip",
    ]  # fmt: skip
    found = json.loads(wgcc(*run, "--json").stdout)
    assert found["classes"] == {"p": ["rose", "tulip"]}
    assert np.array(found["p"]).shape == (2, 3)


def test_predictions_of_prices_are_prices(tmp_path: Path) -> None:
    bundle, table = built(tmp_path, HOUSES), tmp_path / "houses.csv"
    rng = np.random.default_rng(1)
    areas, ages = rng.uniform(20, 200, 40), rng.uniform(0, 50, 40)
    lines = [f"{1000 * a - 500 * b},{a},{b},Oslo" for a, b in zip(areas, ages, strict=True)]
    table.write_text("price,area,age,city\n" + "\n".join(lines))
    result = train(bundle, table)
    assert (result.exit_code, "holds names ('Oslo')" in result.stderr) == (1, True)
    assert "--target NAME" in result.stderr and "Traceback" not in result.stderr
    chosen = ("--target", "price", "--columns", 'area,"age"')
    held = train(bundle, table, *chosen, "--held-out", 0.2)
    assert (held.exit_code, "--held-out needs an entry `eval`" in held.stderr) == (1, True)
    hinted = train(bundle, table, *chosen, "--out", tmp_path / "other.safetensors")
    assert "hint: --scale helps training: `price`, `area`, `age`" in hinted.stderr
    result = train(bundle, table, *chosen, "--scale")
    assert result.exit_code == 0, result.stderr
    assert "note: Columns that are not used: `city`." in result.stderr
    (tmp_path / "new.csv").write_text("age,area\n10,100\n")
    result = wgcc(
        "run", bundle, "predict", "-i", tmp_path / "new.csv", "--json", "--device", "wasm",
        "--weights", tmp_path / "bundle-trained.safetensors",
    )  # fmt: skip
    assert json.loads(result.stdout)["price"][0][0] == pytest.approx(95_000, rel=0.1)


def test_a_resumed_training_has_the_same_options(tmp_path: Path) -> None:
    bundle, table = built(tmp_path, FLOWERS), flowers_csv(tmp_path)
    straight, out = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    options = ("--scale", "--held-out", 0.2, "--device", "wasm")
    assert wgcc("train", bundle, table, *options, "--steps", 20, "--out", straight).exit_code == 0
    assert wgcc("train", bundle, table, *options, "--steps", 10, "--out", out).exit_code == 0
    resume = ("train", bundle, table, "--steps", 20, "--out", out, "--resume", "--device", "wasm")
    result = wgcc(*resume)
    assert (result.exit_code, "prepared in another way" in result.stderr) == (1, True)
    assert wgcc(*resume, *options).exit_code == 0
    assert straight.read_bytes() == out.read_bytes()


def test_the_command_to_resume_repeats_how_data_is_read() -> None:
    from wgcc.cli.commands.train import TrainingJob
    from wgcc.cli.data import DataOptions

    reading = DataOptions("price", "a b,c", True, True, "mean", ",", "drop", {"lr": 0.5})
    job = TrainingJob(
        Path("b"), Path("d.csv"), reading, "train", 9, 1, Path("o"), None, None, None, None, None,
        None, True, 0.25,
    )  # fmt: skip
    assert job.resume_command() == (
        "wgcc train b d.csv --value=lr=0.5 --target=price '--columns=a b,c' --decimal=, "
        "--missing=mean --unknown=drop --scale --encode --held-out 0.25 --steps 9 --every 1 "
        "--out o --resume"
    )


def test_text_trains_a_model_with_a_vocabulary(tmp_path: Path) -> None:
    bundle, text = built(tmp_path, LETTERS), tmp_path / "book.txt"
    text.write_text("abc abba\ncab caba abc")
    result = train(bundle, text)
    assert result.exit_code == 0, result.stderr
    assert f"{text}: 5 rows; ids: text; next: text" in result.stderr
    text.write_text("abc\nabé abé abc")
    result = train(bundle, text)
    assert result.exit_code == 1
    assert f"error[data]: {text}, line 2, column 3: 'é' is not in the model's" in result.stderr
    result = train(bundle, text, "--unknown", "drop")
    assert (result.exit_code, "2 characters that are not" in result.stderr) == (0, True)
    command = ("run", bundle, "score", "-i", text, "--device", "wasm")
    result = wgcc(*command)
    assert result.exit_code == 1 and "leave them out with --unknown drop" in result.stderr
    result = wgcc(*command, "--unknown", "drop")
    assert (result.exit_code, "2 characters that are not" in result.stderr) == (0, True)
    command = ("run", bundle, "decode", "--prompt", "abéc", "-n", "3", "--device", "wasm", "--json")
    assert "holds 'é', which is not in the model's vocabulary" in wgcc(*command).stderr
    result = wgcc(*command, "--unknown", "drop")
    assert json.loads(result.stdout)["prompt"] == "abc" and "1 character of the" in result.stderr


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    bundle = built(tmp_path, PICTURES)
    for name, shade in (("dark", 30), ("light", 220)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(3):
            image = Image.new("RGB", (9, 6), (shade + number, shade, shade))
            image.save(tmp_path / "pictures" / name / f"{number}.png")
    result = train(bundle, tmp_path / "pictures")
    assert result.exit_code == 0, result.stderr
    assert "6 rows; image: pictures; label: classes (dark, light)" in result.stderr
    picture = tmp_path / "pictures" / "light" / "1.png"
    result = wgcc(
        "run", bundle, "predict", "-i", picture, "--json", "--device", "wasm",
        "--weights", tmp_path / "bundle-trained.safetensors",
    )  # fmt: skip
    assert json.loads(result.stdout)["classes"] == {"p": ["light"]}
    picture.write_bytes(b"\x89PNG broken")
    result = train(bundle, tmp_path / "pictures")
    assert (result.exit_code, "this picture cannot be read" in result.stderr) == (1, True)


def test_without_pillow_there_is_a_clear_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = built(tmp_path, PICTURES)
    (tmp_path / "p").mkdir()
    for name in ("a1.png", "b1.png"):
        Image.new("L", (4, 4)).save(tmp_path / "p" / name)
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    result = wgcc("train", bundle, tmp_path / "p")
    assert result.exit_code == 1
    assert "needs Pillow: pip install pillow" in result.stderr


def test_options_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    bundle, table = built(tmp_path, FLOWERS), flowers_csv(tmp_path)
    both = train(bundle, table, "--eval", table, "--held-out", 0.2)
    assert (both.exit_code, "--eval and --held-out" in both.stderr) == (2, True)
    none = wgcc("train", bundle)
    assert (none.exit_code, "holds no data for `train`" in none.stderr) == (1, True)
    value = train(bundle, table, "--value", "lr=fast")
    assert (value.exit_code, "NAME=NUMBER" in value.stderr) == (2, True)
    good = train(bundle, table, "--scale", "--eval", table, "--json")
    assert (good.exit_code, json.loads(good.stdout)["eval_loss"] < 0.5) == (0, True), good.stderr


def test_a_bundle_holds_its_data(tmp_path: Path) -> None:
    table = flowers_csv(tmp_path)
    options = ("--data", table, "--scale", "--title", "Flowers & <leaves>")
    bundle = built(tmp_path, FLOWERS, *options)
    first = {path.name: path.read_bytes() for path in bundle.iterdir() if path.is_file()}
    built(tmp_path, FLOWERS, *options)
    assert first == {path.name: path.read_bytes() for path in bundle.iterdir() if path.is_file()}
    arrays, facts = load_weights(bundle / "data.safetensors")
    assert (arrays["x"].shape, arrays["y"].dtype) == ((30, 2), np.int32)
    assert facts["preparation"]["inputs"]["y"]["classes"] == ["aster", "rose", "tulip"]
    page = first["index.html"].decode()
    assert "<title>Flowers &amp; &lt;leaves&gt;</title>" in page
    assert f"'{base64.b64encode(first['data.safetensors']).decode()}'" in page
    assert b'preparation={"inputs":{"x":{"columns":["size","weight"]' in first["index.js"]

    model = wgcc_runtime.load(bundle, device="wasm")
    assert model.classes == ["aster", "rose", "tulip"]
    result = train(bundle, "--json")
    assert json.loads(result.stdout)["loss"] < 1, result.stderr
    built(tmp_path, FLOWERS)
    assert not (bundle / "data.safetensors").exists()


def test_build_refuses_data_and_labels_that_do_not_fit(tmp_path: Path) -> None:
    table = flowers_csv(tmp_path)
    model = tmp_path / "model.wg"
    model.write_text(FLOWERS)
    out = ("-o", tmp_path / "bundle")
    result = wgcc("build", model, *out, "--data", table, "--target", "kind")
    assert result.exit_code == 1
    assert f"error[data]: {table}: there is no column `kind`" in result.stderr
    assert not (tmp_path / "bundle").exists()
    result = wgcc("build", model, *out, "--data", table, "--json", "--target", "kind")
    assert "there is no column" in json.loads(result.stdout)["error"]
    result = wgcc("build", model, *out, "--data", table, "--labels", "a,b")
    assert (result.exit_code, "2 names, but there are 3 classes" in result.stderr) == (1, True)
    result = wgcc("build", model, *out, "--data", table, "--labels", "b,aster,rose")
    text = "`species` is 'tulip', a class that the model does not know; it knows: b, aster, rose"
    assert (result.exit_code, text in result.stderr) == (1, True), result.stderr
    result = wgcc("build", model, *out, "--data", table, "--labels", "tulip,rose,aster")
    assert result.exit_code == 0
    stored = load_weights(tmp_path / "bundle" / "data.safetensors")[0]
    assert stored["y"].tolist() == [1, 0, 2] * 10
    labels = ("--labels", "Aster,Rose,Tulip")
    result = wgcc("build", model, *out, "--data", table, *labels)
    assert result.exit_code == 0
    assert "names the classes of the data anew: aster is Aster, rose is Rose" in result.stderr
    assert wgcc_runtime.load_plan(tmp_path / "bundle").model == "Flowers"
    assert wgcc("build", model, *out, *labels).exit_code == 0
    found = wgcc_runtime.load(tmp_path / "bundle", device="wasm")
    assert found.classes == ["Aster", "Rose", "Tulip"]


@pytest.mark.parametrize("template", ["regression", "classes", "images"])
def test_starters_work_as_their_readme_says(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = wgcc("new", "mine", "-t", template)
    commands = [line.strip() for line in result.stderr.splitlines() if line.startswith("  wgcc")]
    monkeypatch.chdir(tmp_path / "mine")
    readme = Path("README.md").read_text()
    assert all(f"    {command} " in readme for command in commands)
    assert wgcc("check", "model.wg").exit_code == 0
    build, learn, run = (shlex.split(command)[1:] for command in commands)
    assert wgcc(*build).exit_code == 0
    result = wgcc(*learn, "--device", "wasm", "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["eval_loss"] < 0.5 and report.get("eval_acc", 1) > 0.8
    result = wgcc(*run, "--device", "wasm", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    if template == "regression":
        assert all(20_000 < price[0] < 400_000 for price in found["price"])
    else:
        expected = ["7"] if template == "images" else ["setosa", "versicolor", "virginica"]
        assert found["classes"]["p"] == expected


def test_the_starter_for_text_has_its_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert wgcc("new", "mine", "-t", "text").exit_code == 0
    assert "the id of a character is its place there" in Path("mine/README.md").read_text()
    compiled = compile_file(tmp_path / "mine" / "model.wg", twin=False)
    data = wgcc_runtime.read_data("mine/book.txt", form_of_plan(compiled.planned.plan))
    assert (data.rows, data.arrays["letters"].shape[1]) == (444, 65)
    assert data.arrays["letters"].dtype == np.uint8


def test_trained_weights_bring_their_names_and_scaling(tmp_path: Path) -> None:
    bundle, table = built(tmp_path, FLOWERS), flowers_csv(tmp_path)
    assert train(bundle, table, "--scale").exit_code == 0
    weights = tmp_path / "bundle-trained.safetensors"
    shipped = built(tmp_path, FLOWERS, "--weights", weights)
    model = wgcc_runtime.load(shipped, device="wasm")
    assert model.preparation == load_weights(weights)[1]["preparation"]
    rows = tmp_path / "rows.csv"
    rows.write_text("size;weight\n0,2;2,1\n4,0;-1,0\n")
    out = tmp_path / "found.csv"
    result = wgcc("run", shipped, "predict", "-i", rows, "-o", out, "--device", "wasm")
    assert result.exit_code == 0, result.stderr
    lines = [line.split(",") for line in out.read_text().splitlines()]
    assert lines[0] == ["p aster", "p rose", "p tulip", "p class"]
    assert [line[-1] for line in lines[1:]] == ["rose", "tulip"]

    more = tmp_path / "more.csv"
    more.write_text("size;weight;species\n" + "0,5;2,5;rose\n8,5;-4,0;aster\n" * 2)
    result = train(shipped, more, "--weights", weights, "--out", tmp_path / "w.safetensors")
    assert result.exit_code == 0, result.stderr
    assert f"note: Columns, classes and scaling are those of {weights}." in result.stderr
    kept = load_weights(tmp_path / "w.safetensors")[1]["preparation"]
    assert kept == model.preparation
