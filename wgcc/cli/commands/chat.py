"""`wgcc chat`: a conversation with an imported language model."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.failures import failures
from wgcc.cli.options import SEED, device_option
from wgcc.cli.printing import plural, say
from wgcc.cli.sampling import sampling_options

if TYPE_CHECKING:
    from wgcc_runtime.chat import Chat

HELP = """\
/adapter FILE uses what was learned, as --adapter does; without a file, nothing was
/system TEXT  sets the message of the system; without a text there is none
/save FILE    writes the conversation as JSON lines, which wgcc train --lora learns
/reset        forgets the conversation
/bye          ends, as Ctrl-D does; Ctrl-C ends an answer
\"\"\"           begins and ends a message of several lines"""
QUOTES = '"""'


@click.command("chat")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("question", required=False)
@click.option("--system", default="", metavar="TEXT", help="The message of the system.")
@click.option(
    "--adapter",
    type=click.Path(exists=True, path_type=Path),
    help="What was learned: a checkpoint of `wgcc train FOLDER --lora`, a folder of PEFT, or an "
    "adapter of llama.cpp (.gguf).",
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Tokens of an answer, at most.")
@click.option("--stop", "stops", multiple=True, metavar="TEXT", help="End answers before this.")
@sampling_options
@click.option("--seed", type=SEED, help="Gives the same answers to the same messages.")
@device_option
def command(
    folder: Path,
    question: str | None,
    system: str,
    adapter: Path | None,
    count: int | None,
    stops: tuple[str, ...],
    sampling: dict[str, Any],
    seed: int | None,
    device: str | None,
) -> None:
    """Talk with the language model in FOLDER, which `wgcc import MODEL.gguf -o FOLDER` wrote.

    Answers QUESTION, or, without one, each line that is typed or comes from a pipe; `-` is all of
    the standard input as one message. Lines that begin with / are commands: /help lists them.
    Ctrl-C ends an answer, not the program.

    What the model reads is bounded by its cache, whose size `wgcc import --set S=2048` sets: the
    oldest messages of a longer conversation are left out, and a line says so.
    """
    from wgcc.cli.adapters import load_with
    from wgcc_runtime.chat import Chat

    bundle, template = _bundle(folder, adapter), _template(folder)
    if "" in stops:
        raise click.UsageError("--stop needs a text that is not empty")
    with failures():
        model = load_with(bundle, adapter, device=device)
        own = int.from_bytes(os.urandom(4), "little") if seed is None else seed
        steps = {} if count is None else {"steps": count}
        chat = Chat(model, template, system, stops, **steps, **sampling, seed=own)
        if question is None:
            Conversation(chat).run()
        else:
            Conversation(chat).answer(sys.stdin.read().strip() if question == "-" else question)


def _bundle(folder: Path, adapter: Path | None) -> Path:
    from wgcc.from_gguf import folder as imported
    from wgcc.from_gguf import lora

    if not lora.is_imported(folder):
        text = f"{folder} holds no imported language model: wgcc import MODEL.gguf -o {folder}"
        raise click.UsageError(text)
    if adapter is None:
        return folder / imported.BUNDLE
    return lora.prepare_lora(folder, lora.LoraOptions())[0]


def _template(folder: Path) -> str:
    from wgcc.from_gguf.folder import TEMPLATE

    path = folder / TEMPLATE
    if not path.is_file():
        text = f"{folder} has no {TEMPLATE}: the model was not made to chat; it can continue texts"
        raise click.UsageError(f"{text}: wgcc run {folder / 'bundle'} decode --prompt TEXT")
    return path.read_text(encoding="utf-8")


class Conversation:
    """A conversation at a terminal or in a pipe."""

    def __init__(self, chat: Chat) -> None:
        self._chat, self._is_typed = chat, sys.stdin.isatty()

    def run(self) -> None:
        if self._is_typed:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 (gives `input` a history and keys to edit)
            say(f"{self._chat.model.plan.model} on {self._chat.model.device_name}; /help")
        for line in self._messages():
            if line.startswith("/"):
                if line.split()[0] in ("/bye", "/exit", "/quit"):
                    return
                self._obey(*line.partition(" ")[::2])
            elif line:
                self.answer(line)

    def answer(self, text: str) -> None:
        """Prints the answer as it is written; Ctrl-C ends it."""
        from wgcc_runtime.errors import WgccError

        before = self._chat.left_out
        try:
            for piece in self._chat.ask(text):
                click.echo(piece, nl=False)
            click.echo()
        except KeyboardInterrupt:
            click.echo()
            say("(interrupted)", style="dim")
        except WgccError as error:
            if error.code != "text" or not self._is_typed:
                raise
            say(error.message, style="error")
        else:
            self._say_bounds(before)

    def _say_bounds(self, before: int) -> None:
        chat, cache = self._chat, f"its cache holds {self._chat.context} tokens"
        if chat.left_out > before:
            oldest = plural(chat.left_out, "message")
            say(f"note: the model does not see the oldest {oldest} any more: {cache}")
        if chat.is_cut:
            say(f"note: the answer was cut off: {cache}, an answer has {chat.steps} at most")

    def _messages(self) -> Iterator[str]:
        for line in self._lines(">>> "):
            text = line.strip()
            if text.startswith(QUOTES):
                text = self._rest_of(text.removeprefix(QUOTES))
            yield text

    def _rest_of(self, first: str) -> str:
        """A message of several lines, up to quotes at the end of one."""
        lines = [first]
        more = iter(self._lines("... "))
        while not lines[-1].rstrip().endswith(QUOTES):
            try:
                lines.append(next(more))
            except StopIteration:
                break
        return "\n".join(lines).rstrip().removesuffix(QUOTES).strip()

    def _lines(self, prompt: str) -> Iterator[str]:
        while True:
            try:
                line = input(prompt) if self._is_typed else sys.stdin.readline()
            except EOFError:
                click.echo()
                return
            except KeyboardInterrupt:
                if not self._is_typed:
                    raise
                say("\n(/bye or Ctrl-D ends)", style="dim")
                continue
            if not line and not self._is_typed:
                return
            yield line

    def _obey(self, name: str, rest: str) -> None:
        chat, rest = self._chat, rest.strip()
        if name == "/reset":
            chat.reset()
            say("the conversation is forgotten", style="dim")
        elif name == "/system":
            chat.system = rest
            say("the message of the system is " + ("set" if rest else "taken out"), style="dim")
        elif name == "/save":
            self._save(rest)
        elif name == "/adapter":
            self._use_adapter(rest)
        else:
            say(HELP if name == "/help" else f"there is no command {name}:\n{HELP}")

    def _use_adapter(self, name: str) -> None:
        from wgcc.cli.adapters import use_adapter
        from wgcc.errors import WgError
        from wgcc_runtime.errors import WgccError

        try:
            if name:
                use_adapter(self._chat.model, Path(name))
            else:
                self._chat.model.load_adapter(None)
        except OSError as error:
            say(f"cannot read {name}: {error.strerror}", style="error")
        except (WgError, WgccError) as error:
            say(f"{error}", style="error")
        else:
            say(f"the adapter is {name or 'taken out'}", style="dim")

    def _save(self, name: str) -> None:
        from wgcc_runtime.replace_file import replace_file

        if not name or not self._chat.messages:
            say("give a file: /save talk.jsonl" if not name else "nothing was said yet")
            return
        system = self._chat.system
        first = [{"role": "system", "content": system}] if system else []
        record = {"messages": [*first, *self._chat.messages]}
        try:
            replace_file(Path(name), (json.dumps(record, ensure_ascii=False) + "\n").encode())
        except OSError as error:
            say(f"cannot write {name}: {error.strerror}", style="error")
        else:
            say(f"wrote {plural(len(record['messages']), 'message')} to {name}", style="dim")
