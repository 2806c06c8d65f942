"""Built-in functions that are written in the language: those of `grammar/std/functions.wg`.

Their names and parameters are read from the text; the file is parsed when one of them is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.losses import WRONG, warn_of_inputs
from wgcc.elaborate.tracing.arguments import Arguments, BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import BUILT_IN, AnyValue
from wgcc.errors import Span
from wgcc.files import data_dir

_HEADER = re.compile(r"^fn ([a-z]\w*)(?:\[\w+\])?\((.*?)\) (?:->|=|\{)", re.MULTILINE | re.DOTALL)
# A parameter: its name, its type, and its default.
_PARAMETER = re.compile(r"(\w+): (?:[\w\s\"]|\[[^\]]*\])+(?:= ([^,\s]+))?")


def _functions() -> Iterator[BuiltinFunction]:
    text = (data_dir("grammar") / BUILT_IN).read_text(encoding="utf-8")
    for name, parameters in _HEADER.findall(text):
        pairs = _PARAMETER.findall(parameters)
        listed = (f"{key}={default}" if default else key for key, default in pairs)
        yield _function(name, ", ".join(listed))


def _function(name: str, parameters: str) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
        if name == "bce" or name in WRONG:
            warn_of_inputs(tracer, name, args, at)
        arguments = {key: expect.argument(args, key) for key in args.spans}
        return tracer.call(tracer.built_in(name), Arguments(named=arguments), at)

    return BuiltinFunction(name, parameters, call)


FUNCTIONS = tuple(_functions())
