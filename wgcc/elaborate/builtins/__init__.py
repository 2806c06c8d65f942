"""The built-in functions. Every module of this folder adds those in its `FUNCTIONS`.

A function is `BuiltinFunction(name, parameters, call)`; `call(tracer, args, at)` checks its
arguments, reports errors (`raise Stop(tracer.report.error(…))`) and returns a value, usually a
`Tensor` from `tracer.emit`.
"""

from __future__ import annotations

import importlib
import pkgutil

from wgcc.elaborate.tracing.arguments import BuiltinFunction


def _discover() -> dict[str, BuiltinFunction]:
    functions: dict[str, BuiltinFunction] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for function in getattr(module, "FUNCTIONS", ()):
            assert function.name not in functions, f"two built-ins {function.name}"
            functions[function.name] = function
    return functions


BUILTINS = _discover()
