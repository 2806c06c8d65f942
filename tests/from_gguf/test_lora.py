"""`wgcc train FOLDER texts --lora`: an imported model learns; only corrections are saved."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from gguf_files import write_gguf
from lora_case import LENGTH, RANK, RATE, STEPS, rows_of, start_values
from web_stacks import run_node
from wgcc.cli import main
from wgcc.from_gguf.lora import LoraOptions, prepare_lora
from wgcc_runtime import Model, WgccError, load
from wgcc_runtime.chat_form import ChatForm, chat_form
from wgcc_runtime.data.text_rows import IGNORED, conversation, pack

RECORDED = Path(__file__).parents[1] / "recorded" / "lora.json"
# As the largest difference of a whole language model's losses in 50 steps.
NEAR = 3e-4


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lora")
    file = write_gguf(folder / "m.gguf", "llama", {"default": "Q4_1", "token_embd": "Q8_0"})
    sizes = ["--set", "T=16", "--set", "S=40", "--set", "C=4"]
    assert run("import", file, "-o", folder / "model", "--no-compare", *sizes) == 0
    prepare_lora(folder / "model", LoraOptions(rank=RANK, rate=RATE, length=LENGTH))
    return folder / "model"


@pytest.fixture
def model(imported: Path) -> Any:
    with load(imported / "lora", device="wasm", threads=1) as model:
        yield model


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_fifty_steps_have_the_losses_of_pytorch(model: Model) -> None:
    recorded = json.loads(RECORDED.read_text())["losses"]
    model.load_params(start_values(), strict=False)
    losses = []
    for step in range(STEPS):
        ids, targets = rows_of(step)
        losses.append(float(model.train(ids=ids, targets=targets)["loss"]))
    assert np.abs(np.array(losses) - recorded).max() < NEAR
    assert losses[-1] < 0.8 * losses[0]


def test_activations_are_computed_again_for_less_memory(
    model: Model, imported: Path, tmp_path: Path
) -> None:
    limit = int(0.96 * model.plan.memory["peak"])
    folder = tmp_path / "model"
    shutil.copytree(imported, folder, ignore=shutil.ignore_patterns("lora", "lora.wg", "bundle"))
    options = ["--rank", RANK, "--lr", RATE, "--length", LENGTH, "--memory", f"{limit}B"]
    (tmp_path / "a.txt").write_text("the quick brown fox\n" * 8)
    assert run("train", folder, tmp_path / "a.txt", "--lora", "--steps", 1, *options) == 0
    with load(folder / "lora", device="wasm", threads=1) as small:
        assert small.plan.memory["peak"] <= limit
        for step in range(3):
            ids, targets = rows_of(step)
            losses = [float(m.train(ids=ids, targets=targets)["loss"]) for m in (model, small)]
            assert np.isclose(*losses, rtol=1e-5)


def test_checkpoints_hold_corrections_alone(model: Model, imported: Path, tmp_path: Path) -> None:
    ids, targets = rows_of(0)
    model.train(ids=ids, targets=targets)
    model.save(tmp_path / "a.safetensors")
    names = {name for name in load_file(tmp_path / "a.safetensors") if not name.startswith("opt/")}
    assert names == set(start_values())
    losses = [float(model.train(ids=ids, targets=targets)["loss"]) for _ in range(2)]
    with load(imported / "lora", device="wasm", threads=1) as other:
        other.load(tmp_path / "a.safetensors")
        assert [float(other.train(ids=ids, targets=targets)["loss"]) for _ in range(2)] == losses
    with load(imported / "lora", device="wasm", weights=tmp_path / "a.safetensors") as other:
        own = load_file(tmp_path / "a.safetensors")
        assert all(np.array_equal(other.params()[name], own[name]) for name in names)


def test_javascript_saves_the_same_bytes(model: Model, imported: Path, tmp_path: Path) -> None:
    ids, targets = rows_of(0)
    model.train(ids=ids, targets=targets)
    path = tmp_path / "a.safetensors"
    model.save(path)
    loss = float(model.train(ids=ids, targets=targets)["loss"])
    data = {"ids": ids.tolist(), "targets": targets.tolist()}
    seen = run_node("corrections.mjs", str(imported / "lora"), str(path), data=data)
    assert seen["isSame"] and np.float32(seen["loss"]) == np.float32(loss)
    # The base has 77 kB.
    assert seen["whole"] > seen["part"] + 70_000


def test_other_weights_are_saved_with_their_corrections(model: Model, tmp_path: Path) -> None:
    name = "base.norm.g"
    model.load_params({name: 2 * model.parameters[name]}, strict=False)
    model.save(tmp_path / "all.safetensors")
    stored = load_file(tmp_path / "all.safetensors")
    assert set(model.params()) <= set(stored)
    model.reset()
    model.load(tmp_path / "all.safetensors")
    assert np.array_equal(model.parameters[name], stored[name])


def test_a_text_is_learned_from_the_command_line(imported: Path, tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "chats.jsonl"
    text.write_text("the quick brown fox\n" * 8)
    other.write_text('{"text": "the fox"}\n\n{"text": "a brown fox is quick"}\n')
    adapter = tmp_path / "a.safetensors"
    more = ["--device", "wasm", "--out", adapter, "--log", tmp_path / "log.jsonl", "--every", 5]
    assert run("train", imported, text, "--lora", "--steps", 30, "--eval", other, *more) == 0
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert losses[-1] < 0.8 * losses[0]
    before = (imported / "lora" / "plan.json").stat().st_mtime_ns
    assert run("train", imported, other, "--lora", "--steps", 31, "--resume", *more) == 0
    assert (imported / "lora" / "plan.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("a.jsonl", '{"messages": []}', "line 1: the model has no chat template"),
        ("a.jsonl", '{"text": "ok"}\n{"text": 3}', "line 2: a line is"),
        ("a.jsonl", "\n{", "line 2: no JSON"),
        ("a.jsonl", "[" * 100_000, "line 1"),
        ("a.txt", "x", "nothing to learn"),
        ("a.txt", "", "nothing to learn"),
    ],
)
def test_bad_texts_are_refused(
    name: str, text: str, error: str, imported: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / name).write_text(text)
    assert run("train", imported, tmp_path / name, "--lora", "--device", "wasm") == 1
    assert error in capsys.readouterr().err


def test_what_cannot_be_trained_is_refused(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("abc")
    for arguments, error in (
        ([tmp_path, text, "--lora"], "holds no imported language model"),
        ([imported, "--lora"], "give a text"),
        ([imported, text, "--rank", 4], "--rank needs --lora"),
        ([imported, text, "--lora", "--targets", "q,x"], "'x' is none of q, k, v"),
    ):
        assert run("train", *arguments) in (1, 2)
        assert error in capsys.readouterr().err
    damaged = tmp_path / "damaged"
    shutil.copytree(imported, damaged, ignore=shutil.ignore_patterns("lora", "bundle"))
    (damaged / "weights.safetensors").write_bytes(b"\x10")
    assert run("train", damaged, text, "--lora") == 1
    assert "cannot read" in capsys.readouterr().err


def test_rows_are_packed_and_each_token_is_a_target_once() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        texts = [
            [(int(i), bool(rng.integers(4))) for i in rng.integers(1, 99, rng.integers(0, 30))]
            for _ in range(rng.integers(1, 6))
        ]
        ids, targets = pack(texts, int(rng.integers(1, 12)))
        learned = [id_ for text in texts for id_, is_learned in text[1:] if is_learned]
        flat, wanted = ids.ravel(), targets.ravel()
        assert [id_ for id_ in wanted if id_ != IGNORED] == learned
        before = [id_ for text in texts for id_, _ in text[:-1]]
        assert list(flat[: len(before)]) == before and not flat[len(before) :].any()


CHATML = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ \
'<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' \
+ message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ \
'<|im_start|>assistant\n' }}{% endif %}"""
LLAMA3 = """{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' \
+ m['content'] + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{ \
'<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
GEMMA = """{% for m in messages %}{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else \
m['role']) + '\n' + m['content'] + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}\
{{ '<start_of_turn>model\n' }}{% endif %}"""
PHI3 = """{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '<|end|>\n' }}\
{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"""


@pytest.mark.parametrize("template", [CHATML, LLAMA3, GEMMA, PHI3])
def test_conversations_are_written_as_their_template_does(template: str) -> None:
    from jinja2 import Environment

    form, render = chat_form(template), Environment().from_string(template).render
    assert isinstance(form, ChatForm)
    talk = [{"role": r, "content": t} for r, t in (("user", "Hi"), ("assistant", "Ho {x}"))]
    for messages in (talk[:1], talk, talk * 2, [{"role": "system", "content": "S"}, *talk]):
        if messages[0]["role"] == "system" and template is GEMMA:
            joined = {"role": "user", "content": "S\n\nHi"}
            assert form.text(messages) == form.text([joined, talk[1]])
            continue
        assert form.text(messages) == render(messages=messages)
        asked = render(messages=messages, add_generation_prompt=True)
        assert form.question(messages) == asked
    assert chat_form("{{ messages }}") is None


def test_answers_alone_are_learned(model: Model) -> None:
    form, decode = chat_form(PHI3), model.tokens.decode
    assert form is not None
    talk = [{"role": "user", "content": "the fox?"}, {"role": "assistant", "content": "quick"}]
    items = conversation(talk, model.tokens, form)
    learned = [id_ for id_, is_learned in items if is_learned]
    assert decode([id_ for id_, _ in items], False) == form.text(talk)
    assert decode(learned, False) == "quick<|end|>"
    for wrong in ([], [{"role": "x", "content": ""}], [{"role": "user"}], [3], "text"):
        with pytest.raises(ValueError, match="message"):
            conversation(wrong, model.tokens, form)
    gemma = chat_form(GEMMA)
    assert gemma is not None
    with pytest.raises(WgccError, match="system alone"):
        gemma.text([{"role": "system", "content": "S"}])
