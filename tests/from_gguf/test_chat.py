"""`Chat` and `wgcc chat`: conversations with an imported model, in both languages and a shell."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters import ROOT
from gguf_files import write_gguf
from test_lora import CHATML, GEMMA, LLAMA3, PHI3
from web_stacks import run_node
from wgcc.cli import main
from wgcc_runtime import Model, WgccError, generate, load
from wgcc_runtime.chat import Chat, context_of, counter_of
from wgcc_runtime.chat_form import ChatForm, chat_form

QUESTIONS = [
    "the quick fox?",
    "and brown?",
    "häuser 👍",
    "the fox again, and again, and again",
    "ok",
]
CACHE = 120


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    types = {"default": "Q4_1", "token_embd": "Q8_0"}
    file = write_gguf(folder / "m.gguf", "llama", types, template=PHI3, context=200)
    sizes = ["--set", "T=16", "--set", f"S={CACHE}", "--set", "C=8"]
    assert run("import", file, "-o", folder / "model", "--no-compare", *sizes) == 0
    return folder / "model"


@pytest.fixture
def model(imported: Path) -> Any:
    with load(imported / "bundle", device="wasm", threads=1) as model:
        yield model


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def answers(chat: Chat, questions: list[str]) -> list[dict[str, Any]]:
    seen = []
    for question in questions:
        pieces = list(chat.ask(question))
        assert "".join(pieces) == chat.messages[-1]["content"]
        seen.append({"pieces": pieces, "leftOut": chat.left_out, "isCut": chat.is_cut})
    return seen


def test_both_languages_say_the_same(model: Model, imported: Path) -> None:
    options = {"steps": 14, "seed": 5, "system": "a fox", "stop": "q"}
    own = answers(Chat(model, PHI3, **options), QUESTIONS)
    given = {"template": PHI3, "options": options, "questions": QUESTIONS}
    seen = run_node("chat.mjs", str(imported / "bundle"), data=given)
    assert seen["answers"] == own
    assert seen["context"] == CACHE and seen["refused"] == ["text", "text", "name"]
    assert [one["leftOut"] for one in own][-1] > 0, "the cache was never full"
    assert any(one["isCut"] for one in own) and any(len(one["pieces"]) > 3 for one in own)
    assert seen["aborted"]["name"] == "AbortError" and len(seen["aborted"]["text"]) > 0
    assert seen["aborted"]["after"] == seen["aborted"]["fresh"]


def test_what_is_in_the_cache_is_not_read_again(model: Model) -> None:
    """The answer of a conversation is that of a model that reads all of it at once."""
    chat = Chat(model, PHI3, temperature=0.0, steps=6)
    reads: list[int] = []
    call = model.call
    model.call = lambda name, **given: (  # type: ignore[method-assign]
        reads.extend(array.size for array in given.values()),
        call(name, **given),
    )[1]
    for question in QUESTIONS[:2]:
        list(chat.ask(question))
    asked = chat.messages[:3]
    ids = model.tokens.encode(chat_form(PHI3).question(asked), "before")  # type: ignore[union-attr]
    # The second question, some ids that fill a chunk, and the answer.
    assert sum(reads) < len(ids) + 8 + 2 * 6
    model.forget()
    text = "".join(generate(model, ids, steps=6, temperature=0.0, stop="<|end|>"))
    assert text == chat.messages[3]["content"]
    with load_again(model) as other:
        alone = Chat(other, PHI3, temperature=0.0, steps=6)
        alone.messages = list(asked[:2])
        assert "".join(alone.ask(asked[2]["content"])) == text


def load_again(model: Model) -> Model:
    import copy

    return copy.copy(model)


def test_chunks_read_as_single_tokens_do(model: Model) -> None:
    prompt, chunks = "the quick brown fox is at home " * 2, []
    chunked = "".join(generate(model, prompt, steps=9, temperature=0.0))
    call = model.call
    model.forget()
    model.call = lambda name, **given: (chunks.append(name), call(name, **given))[1]  # type: ignore[method-assign]
    assert "".join(generate(model, prompt, steps=9, temperature=0.0)) == chunked
    assert chunks.count("prefill") > 3
    ids = model.tokens.encode(prompt, "before")
    model.call = call  # type: ignore[method-assign]
    model.forget()
    for id_ in ids[:-1]:
        model.decode(np.array([id_], np.int32))
    assert "".join(generate(model, ids[-1:], steps=9, temperature=0.0)) == chunked


def test_an_answer_can_be_left(model: Model) -> None:
    chat = Chat(model, PHI3, temperature=0.0, steps=20)
    whole = "".join(chat.ask(QUESTIONS[0]))
    chat.reset()
    pieces = chat.ask(QUESTIONS[0])
    start = next(pieces) + next(pieces)
    pieces.close()
    assert chat.messages[-1] == {"role": "assistant", "content": start} and whole.startswith(start)
    chat.reset()
    assert "".join(chat.ask(QUESTIONS[0])) == whole
    # Something else used the model.
    model.reset()
    chat.reset()
    assert "".join(chat.ask(QUESTIONS[0])) == whole


def test_what_cannot_be_said_is_refused(model: Model, tmp_path: Path) -> None:
    chat = Chat(model, PHI3)
    with pytest.raises(WgccError, match=r"too long: with what stands around it, it has \d+ tokens"):
        chat.ask("a long message " * 99)
    assert chat.messages == []
    for template, options, text in (
        ("{{ messages }}", {}, "none of the marks"),
        (PHI3, {"top_q": 1}, "no option `top_q`"),
        (PHI3, {"min_p": 2.0}, "`min_p` is from 0 to 1"),
        (PHI3, {"repetition_penalty": 0.0}, "above 0"),
        (PHI3, {"steps": 0}, "`steps` is a whole number"),
    ):
        with pytest.raises(WgccError, match=text):
            Chat(model, template, **options)
    assert (counter_of(model), context_of(model)) == ("used", CACHE)


@pytest.mark.parametrize("template", [CHATML, LLAMA3, GEMMA, PHI3])
def test_forms_are_the_same_in_javascript(template: str) -> None:
    form = chat_form(template)
    assert isinstance(form, ChatForm)
    talk = [{"role": r, "content": f"{r} {{x}} ä$&"} for r in ("user", "assistant", "user")]
    cases = [talk[:1], talk, [{"role": "system", "content": "S"}, *talk], talk[:2]]
    seen = run_node("chat_forms.mjs", data={"template": template, "cases": cases})
    assert seen["texts"] == [form.text(case) for case in cases]
    assert seen["questions"] == [form.question(case) for case in cases]
    assert seen["stop"] == form.stop and seen["unknown"] is None


def shell(imported: Path, *arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(imported, *arguments), input=text, capture_output=True, text=True,
        check=False, env=environment(),
    )  # fmt: skip


def command(imported: Path, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "wgcc", "chat", str(imported), "--device", "wasm",
            *map(str, arguments)]  # fmt: skip


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    return {**os.environ, "PYTHONPATH": path}


def test_a_conversation_comes_from_a_pipe(imported: Path, tmp_path: Path) -> None:
    saved = tmp_path / "talk.jsonl"
    lines = ["/help", "the fox", '"""two', 'lines"""', f"/save {saved}", "/system be a fox",
             "/reset", "the fox", "/nothing", "/save", "/bye", "never read"]  # fmt: skip
    done = shell(imported, "--temperature", 0, "-n", 5, text="\n".join(lines) + "\n")
    assert done.returncode == 0, done.stderr
    messages = json.loads(saved.read_text())["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] * 2
    assert messages[2]["content"] == "two\nlines"
    assert done.stdout.startswith(messages[1]["content"] + "\n" + messages[3]["content"] + "\n")
    for text in ("there is no command /nothing", "/save talk.jsonl", "was cut off", "/bye"):
        assert text in done.stderr
    again = shell(imported, "the fox", "--temperature", 0, "-n", 5)
    assert again.stdout == messages[1]["content"] + "\n"
    piped = shell(imported, "-", "--temperature", 0, "-n", 5, text="the fox\n")
    assert piped.stdout == again.stdout
    assert run("train", imported, saved, "--lora", "--steps", 1, "--device", "wasm") == 0
    learned = shell(imported, "the fox", "-n", 3, "--adapter", imported / "adapter.safetensors")
    assert learned.returncode == 0 and learned.stdout


def test_ctrl_c_ends_an_answer_and_not_the_program(imported: Path) -> None:
    main_end, its_end = pty.openpty()
    process = subprocess.Popen(
        command(imported, "--temperature", 3, "--seed", 1, "--top-k", 300, "--top-p", 1.0),
        stdin=its_end, stdout=its_end, stderr=subprocess.DEVNULL, env=environment(),
    )  # fmt: skip
    os.close(its_end)
    try:
        read_until(main_end, b">>> ")
        os.write(main_end, b"the fox\n")
        read_until(main_end, b"the fox")
        read_until(main_end, b"", some=30)
        process.send_signal(signal.SIGINT)
        read_until(main_end, b">>> ")
        assert leave(process, main_end) == 0
    finally:
        process.kill()
        process.wait()
        os.close(main_end)


def leave(process: subprocess.Popen[bytes], terminal: int) -> int:
    """Its exit code. A Ctrl-C that comes as an answer ends throws away what is typed meanwhile."""
    for _ in range(24):
        os.write(terminal, b"/bye\n")
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(5)
    raise AssertionError("it does not end")


def read_until(terminal: int, text: bytes, some: int = 0) -> bytes:
    """What comes up to this text, or some bytes."""
    seen = b""
    while (text not in seen) if text else len(seen) < some:
        seen += os.read(terminal, 1)
    return seen


def test_the_examples_of_the_page_run(
    imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The `sh` and `python` blocks of GGUF.md that talk."""
    page = (ROOT / "wgcc" / "GGUF.md").read_text(encoding="utf-8")
    part = page.partition("## Talking")[2].partition("\n## ")[0]
    ((_, lines), (_, code)) = re.findall(r"```(sh|python)\n(.*?)```", part, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(imported, "folder")
    monkeypatch.setenv("WGCC_DEVICE", "wasm")
    assert run("train", "folder", imported / "model.wg", "--lora", "--steps", 1) == 0
    for line in lines.splitlines():
        program, *arguments = shlex.split(line.partition("  #")[0])
        monkeypatch.setattr(sys, "stdin", io.StringIO("the fox\n"))
        assert (program, run(*arguments, "-n", 3)) == ("wgcc", 0), line
    # The cache of the small model has no room for more.
    exec(compile(code.replace("What is a lighthouse?", "fox?"), "GGUF.md", "exec"), {})


def test_what_cannot_chat_says_why(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert run("chat", tmp_path / "empty") == 2
    assert "holds no imported language model" in capsys.readouterr().err
    plain = tmp_path / "plain"
    types = {"default": "Q8_0"}
    file = write_gguf(tmp_path / "m.gguf", "llama", types, template="{{ messages }}")
    assert run("import", file, "-o", plain, "--no-compare") == 0
    assert run("chat", plain, "hi") == 1
    assert "none of the marks" in capsys.readouterr().err
    (plain / "chat_template.txt").unlink()
    assert run("chat", plain, "hi") == 2
    assert "has no chat_template.txt" in capsys.readouterr().err
    assert run("chat", imported, "fox " * 99) == 1
    assert "too long" in capsys.readouterr().err
