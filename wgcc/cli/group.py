"""The `wgcc` command itself: finds its subcommands, and turns every failure into one clear text.

A subcommand NAME is the module `wgcc/cli/commands/NAME` with a click command called `command`: a
file, or a folder if it has parts. It imports what is slow only when it runs, so that `wgcc --help`
stays quick.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click

from wgcc import __version__
from wgcc.cli import commands
from wgcc.cli.failures import INTERRUPTED, PROBLEM, report
from wgcc.cli.printing import print_error, say
from wgcc.errors import WgError

# In the order in which people need them; others follow by name.
_ORDER = (
    "new", "check", "fmt", "build", "serve", "show", "train", "run", "chat", "verify", "accept",
    "bench", "trace", "tune", "import", "export", "doctor", "lsp",
)  # fmt: skip


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        names = [info.name.rstrip("_") for info in pkgutil.iter_modules(commands.__path__)]
        return sorted(names, key=lambda name: ([*_ORDER, name].index(name), name))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        # `import` is a keyword of Python and cannot name a module.
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command = importlib.import_module(f"{commands.__name__}.{module}").command
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from wgcc.spelling import did_you_mean

            near = did_you_mean(args[0], self.list_commands(ctx)) if args else []
            if near:
                text = f"No such command '{args[0]}'. Did you mean '{near[0]}'?"
                raise click.UsageError(text, ctx) from error
            raise


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""Shell completion:

    \b
    bash, in ~/.bashrc:      eval "$(_WGCC_COMPLETE=bash_source wgcc)"
    zsh, in ~/.zshrc:        eval "$(_WGCC_COMPLETE=zsh_source wgcc)"
    fish, in config.fish:    _WGCC_COMPLETE=fish_source wgcc | source""",
)
@click.version_option(__version__, prog_name="wgcc", message="%(prog)s %(version)s")
def cli() -> None:
    """Compile .wg models to WebGPU bundles that train and predict anywhere.

    \b
    wgcc new hello && cd hello          start from a small model with data
    wgcc build model.wg -o bundle       compile it
    wgcc train bundle data.safetensors  train it
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit code. No traceback reaches the user."""
    # Graphs have no cycles: to look for some as often as Python does costs 8 % of a build.
    gc.set_threshold(50_000, 20, 50)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a letter shows `?`
    try:
        args = None if arguments is None else list(arguments)
        done: Any = cli.main(args=args, prog_name="wgcc", standalone_mode=False)
        sys.stdout.flush()
        return done if isinstance(done, int) else 0
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        return INTERRUPTED
    except click.ClickException as error:
        return report(error, sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:
        # The reader of our output closed the pipe. Without this, Python would report it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _explain(error)


def _explain(error: Exception) -> int:
    if isinstance(error, WgError):
        print_error(error)
    elif _is_runtime_error(error):
        say(f"wgcc: {getattr(error, 'message', error)}", style="error")
    elif isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        say(f"wgcc: {where}{error.strerror}", style="error")
    elif isinstance(error, MemoryError):
        advice = "close other programs, or use smaller data, a smaller batch or model (--set)"
        say(f"wgcc: there is not enough memory for this: {advice}", style="error")
    else:
        _last_resort(error)
    return PROBLEM


def _is_runtime_error(error: Exception) -> bool:
    """Does not import the runtime: if it raised something, it is loaded already."""
    runtime = sys.modules.get("wgcc_runtime.errors")
    return runtime is not None and isinstance(error, runtime.WgccError)


def _last_resort(error: Exception) -> None:
    if os.environ.get("WGCC_TRACEBACK"):
        traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    kind = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(
        ": "
    )
    say(
        f"wgcc {__version__}: internal error ({kind}{place}). This is a bug in wgcc, not in "
        "your model: please report it with the model file and this line "
        "(with WGCC_TRACEBACK=1, wgcc also prints the traceback).",
        style="error",
    )
