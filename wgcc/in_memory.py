"""`wgcc.compile`: a program, as a text or a file, becomes a model in memory.

What was compiled is kept by its content, so that the same program, or one with other numbers in the
settings of its optimizers, is opened at once.
"""

from __future__ import annotations

import hashlib
import json
import operator
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wgcc.bundle.content import data_bytes
from wgcc.bundle.folder import write_files
from wgcc.compile_error import CompileError
from wgcc.compiler import Compiled, compile_file
from wgcc.errors import Diagnostics, Source, WgError, render_run
from wgcc.files import read_bytes, read_text
from wgcc.ir.program import Wanted, patterns_of
from wgcc.live_settings import (
    is_setting,
    live_names,
    state_name,
    with_live_settings,
    with_settings,
)
from wgcc.syntax import ast
from wgcc.syntax.parser import parse
from wgcc_runtime.copying import PLAN, Files, Origin
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.errors import WgccWarning
from wgcc_runtime.loader import MAX_BYTES, open_machine, with_tokens
from wgcc_runtime.model import Model
from wgcc_runtime.plan import Plan, unchecked_plan
from wgcc_runtime.values import StartValues, without_moments

# How many compiled programs a process keeps.
KEPT = 16
# The name of a program that is a text, in its bundle and in messages.
NAME, SHOWN = "model.wg", "<text>"
CHECKPOINT = ".safetensors"


@dataclass(frozen=True, slots=True)
class Request:
    """A program to compile. `content` is a digest of the program with all files that it names."""

    source: Source = field(compare=False)
    content: str
    numbers: tuple[tuple[str, float], ...]
    model: str | None
    seed: int | None
    entries: tuple[str, ...]
    strict_dims: bool
    capture: tuple[Wanted, ...] = ()
    fast: bool = False
    live: frozenset[str] = frozenset()

    @property
    def live_states(self) -> dict[str, float]:
        """The numbers of live settings, by the names of the states that they are."""
        return {state_name(name): n for name, n in self.numbers if name in self.live}


@dataclass(frozen=True, slots=True)
class Result:
    """`files` are those that a runtime needs, `plan` is one of them, read."""

    compiled: Compiled
    files: Files
    plan: Plan


class CompiledModel(Model):
    """Made by `wgcc.compile`. It can also be saved as a bundle."""

    _request: Request

    def save(self, path: str | Path, optimizer: bool = True, keep_previous: bool = False) -> None:
        """A checkpoint if the name ends with `.safetensors`, else a bundle with these values.

        The bundle replaces an older one in that folder; a folder with other files is refused.
        """
        if Path(path).suffix == CHECKPOINT:
            super().save(path, optimizer, keep_previous)
        else:
            _write_bundle(self, self._request, Path(path))

    @property
    def live_settings(self) -> Mapping[str, str]:
        """Numbers that `compile` was given as floats, if the program lets them change."""
        states = {name: state_name(name) for name in sorted(self._request.live)}
        return {name: state for name, state in states.items() if state in self.plan.tensors}

    def _checkpoint_plan(self) -> Plan:
        """Live settings are no values of the model: its program has them as numbers."""
        kept = {n: t for n, t in self.plan.tensors.items() if n not in self._request.live_states}
        return replace(self.plan, tensors=kept)

    def __reduce__(self) -> tuple[Any, ...]:
        """The copy has the live settings of this model, not of the first that was compiled."""
        opener, (kind, origin, *rest), attributes = super().__reduce__()
        contents = dict(origin.read.contents)
        plan = json.loads(contents[PLAN])
        for name in self._request.live_states.keys() & self.plan.tensors.keys():
            plan["tensors"][name]["init"] = self.plan.tensors[name].init
        contents[PLAN] = json.dumps(plan).encode()
        return opener, (kind, replace(origin, read=Files(contents)), *rest), attributes

    def _copied_attributes(self) -> dict[str, Any]:
        return {**super()._copied_attributes(), "_request": self._request}


def compile(
    program: str | Path,
    *,
    sizes: Mapping[str, float] | None = None,
    constants: Mapping[str, float] | None = None,
    files: Mapping[str, str] | None = None,
    model: str | None = None,
    seed: int | None = None,
    entries: Sequence[str] = (),
    weights: Any = None,
    device: Any = None,
    threads: int | None = None,
    strict_dims: bool = False,
    capture: Sequence[str] = (),
    capture_stats: Sequence[str] = (),
    fast: bool = False,
) -> CompiledModel:
    """A model in memory, ready to train and predict; no file is written.

    `program`: the text of a program, or the path of a `.wg` file.
    `sizes`, `constants`: numbers for its dims and consts, as `wgcc build --set` sets them, and for
    settings of its optimizers: `{"opt.lr": 0.1}`.
    `files`: texts of files that it imports or names, by their paths beside it, in place of those
    on disk: `{"wiggle.wgsl": "fn wiggle…"}`.
    `model`: which one, if the program has several. `entries`: only these, instead of all.
    `seed`: for initial values and random numbers, instead of the model's own.
    `weights`, `device`, `threads`, `fast`: as `wgcc.load` takes them.
    `strict_dims`: dims that agree by coincidence are errors.
    `capture`, `capture_stats`: names of values, or globs such as `blocks.*.x`, that
    `model.captured` shows after a call, as arrays or as their statistics.
    Raises `wgcc.CompileError`, whose text has the places of all mistakes.
    """
    try:
        numbers = _numbers(sizes or {}, constants or {})
        source, content = _read(program, files or {})
        patterns = patterns_of(_globs(capture), _globs(capture_stats))
        options = model, checked_seed(seed), tuple(entries), strict_dims, patterns, fast
        request = Request(source, content, numbers, *options)
        live, result = _result(request)
    except WgError as failure:
        error = CompileError(failure)
    else:
        _warn(result)
        origin = Origin(result.files, device, None, MAX_BYTES, threads, fast=fast)
        return _open(live, result, weights, origin)
    # Without the frames of the compiler, which say nothing about the program.
    raise error


def _globs(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def declared_names(program: str | Path) -> set[str]:
    """The dims that a program declares itself."""
    try:
        tree = parse(_source(program), Diagnostics())
    except WgError as failure:
        error = CompileError(failure)
    else:
        dims = (item for item in tree.items if isinstance(item, ast.Dims))
        return {dim.name.text for item in dims for dim in item.dims}
    raise error


def _numbers(*parts: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    numbers: dict[str, float] = {}
    for name, number in (item for part in parts for item in part.items()):
        if isinstance(number, bool) or not hasattr(number, "__float__"):
            raise WgError(f"{name} is {number!r}, not a number")
        if name in numbers:
            raise WgError(f"{name} is in `sizes` and in `constants`")
        numbers[name] = _plain(number)
    return tuple(sorted(numbers.items()))


def _plain(number: Any) -> float:
    """A number of numpy or another library as Python's own."""
    try:
        return operator.index(number)
    except TypeError:
        return float(number)


def _read(program: str | Path, files: Mapping[str, str]) -> tuple[Source, str]:
    """A program and the digest of its content."""
    source, digest = _source(program, files), hashlib.sha256()
    _add_content(source.text, Path(source.path).parent.resolve(), digest, set())
    for name, text in sorted(files.items()):
        if not isinstance(text, str):
            raise WgError(f"the file {name} is {type(text).__name__}, not a text")
        digest.update(f"{name}\0{text}\0".encode())
        _add_content(text, Path(source.path).parent.resolve() / Path(name).parent, digest, set())
    return source, digest.hexdigest()


def _source(program: str | Path, files: Mapping[str, str] | None = None) -> Source:
    """A text has a line break or a brace; all else is a path."""
    if isinstance(program, str) and re.search(r"[\n{]", program):
        text = program.replace("\r\n", "\n").replace("\r", "\n")
        return Source(NAME, text, SHOWN, files)
    path = Path(program)
    return Source(path.name, read_text(path), str(path), files)


def _add_content(text: str, folder: Path, digest: Any, seen: set[Path]) -> None:
    """A text, and what it names in quotes if that is a file: imports, tokens."""
    digest.update(text.encode() + b"\0")
    for name in re.findall(r'"([^"\n]{1,200})"', text):
        path = folder / name
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        if path.suffix == ".wg":
            _add_content(read_text(path), path.parent, digest, seen)
        else:
            digest.update(hashlib.sha256(read_bytes(path, MAX_BYTES, "a file")).digest())


_results: OrderedDict[Request, Result | None] = OrderedDict()
_lock = threading.Lock()


def _result(request: Request) -> tuple[Request, Result]:
    """The result for a request, and the request with the names of its live settings."""
    names = [name for name, number in request.numbers if isinstance(number, float)]
    live = live_names(request.source, names) if names else frozenset()
    with _lock:
        if live:
            wanted = replace(request, live=live)
            result = _look_up(_without_live(wanted), wanted)
            if result:
                return wanted, result
        result = _look_up(request, request)
        assert result is not None
        return request, result


def _without_live(request: Request) -> Request:
    """The key of all requests that differ in live settings alone."""
    numbers = tuple(item for item in request.numbers if item[0] not in request.live)
    return replace(request, numbers=numbers)


def _look_up(key: Request, request: Request) -> Result | None:
    """None for live settings that the program does not allow."""
    if key not in _results:
        try:
            _results[key] = _compile(request)
        except WgError:
            if not request.live:
                raise
            _results[key] = None
        while len(_results) > KEPT:
            _results.popitem(last=False)
    _results.move_to_end(key)
    return _results[key]


def _compile(request: Request) -> Result:
    source, numbers = request.source, dict(request.numbers)
    # In the order of names, so that the same settings give the same text.
    live = {name: numbers.pop(name) for name in sorted(request.live)}
    if live:
        source = with_live_settings(source, live)
    settings = {name: numbers.pop(name) for name in [*numbers] if is_setting(name)}
    if settings:
        source = with_settings(source, settings)
    compiled = compile_file(
        source,
        sizes=numbers,
        model=request.model,
        seed=request.seed,
        entries=request.entries,
        strict_dims=request.strict_dims,
        capture=request.capture,
        fast=request.fast,
    )
    contents = compiled.runtime_files()
    raw = json.loads(contents[PLAN])
    # Checkpoints name the program by its text, which is the same for all live settings.
    raw["model"]["sha256"] = hashlib.sha256(request.source.text.encode()).hexdigest()
    files = Files({**contents, PLAN: json.dumps(raw).encode()})
    return Result(compiled, files, with_tokens(unchecked_plan(raw), files))


def _warn(result: Result) -> None:
    if result.compiled.diagnostics.items:
        warnings.warn(render_run(result.compiled.diagnostics), WgccWarning, stacklevel=3)


def _open(request: Request, result: Result, weights: Any, origin: Origin) -> CompiledModel:
    plan = _with_values(result.plan, request.live_states)
    values = StartValues(plan, origin.read, weights)
    model = CompiledModel(open_machine(plan, origin), values, None, origin=origin)
    model._request = request
    return model


def _with_values(plan: Plan, values: Mapping[str, float]) -> Plan:
    """Live settings begin with these values, and have them again after `reset`."""
    changed = {
        name: replace(plan.tensors[name], init={"kind": "value", "values": [value]})
        for name, value in values.items()
        # A setting that no entry reads has no place in the plan.
        if name in plan.tensors
    }
    return replace(plan, tensors={**plan.tensors, **changed}) if changed else plan


def _write_bundle(model: CompiledModel, request: Request, folder: Path) -> None:
    """The bundle that `wgcc build` makes of the program, with the values that the model has."""
    with _lock:
        result = _look_up(replace(request, live=frozenset()), replace(request, live=frozenset()))
    assert result is not None
    compiled, given = result.compiled, None
    if model.has_learned:
        values = {**model.params(), **without_moments(model.state())}
        given = {name: array for name, array in values.items() if name not in request.live_states}
    preparation = model.preparation
    data = None if preparation is None else data_bytes({}, preparation, None)
    write_files(compiled.files(given, data), folder)
