"""The subject of `wgcc show`: a model file, compiled as far as needed, or a bundle."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wgcc.cli.bundles import stored_plan
from wgcc.compiler import Compiled, compile_program, read_program
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.files import LARGEST_TEXT, read_bytes, read_text
from wgcc.ir.program import Program
from wgcc.passes.pipeline import run_passes
from wgcc.spelling import did_you_mean


def open_subject(
    path: Path,
    sizes: Mapping[str, float],
    model: str | None,
    seed: int | None,
    entry: str | None,
    strict_dims: bool = False,
) -> Subject:
    if path.is_dir():
        if sizes or model or seed is not None or strict_dims:
            raise WgError(
                f"{path} is a bundle: --set, --model, --seed and --strict-dims need the model file "
                "instead"
            )
        return Bundle(path, entry)
    return ModelFile(path, sizes, model, seed, entry, strict_dims)


class Subject:
    """`plan` has only the entry that was asked for, if one was."""

    @property
    def plan(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def compiled(self) -> Compiled | None:
        return None

    def tree_text(self) -> str:
        raise WgError(
            "a bundle contains only the plan; for other stages give wgcc show the model file"
        )

    def program(self, stage: str) -> Program:
        raise WgError(
            f"a bundle contains only the plan; for --stage {stage} give wgcc show the model file"
        )

    def first_program(self) -> Program | None:
        """The program before all passes, if there is a model file."""
        return None

    def source_lines(self) -> list[str]:
        raise NotImplementedError

    def kernel(self, name: str) -> tuple[str, str]:
        """Its name and its WGSL."""
        texts = self.kernel_texts()
        name = name.removesuffix(".wgsl")
        if name not in texts:
            near = did_you_mean(name, texts)
            advice = f"did you mean {near[0]}?" if near else f"there are: {', '.join(texts)}"
            raise WgError(f"there is no kernel {name}; {advice}")
        return name, texts[name]

    def kernel_texts(self) -> Mapping[str, str]:
        raise NotImplementedError


class ModelFile(Subject):
    def __init__(
        self,
        path: Path,
        sizes: Mapping[str, float],
        model: str | None,
        seed: int | None,
        entry: str | None,
        strict_dims: bool,
    ) -> None:
        self._path = path
        self._options: dict[str, Any] = {
            "sizes": sizes, "model": model, "seed": seed, "strict_dims": strict_dims,
        }  # fmt: skip
        self._entry = entry

    @property
    def plan(self) -> dict[str, Any]:
        return self._plan

    @functools.cached_property
    def _plan(self) -> dict[str, Any]:
        return self.compiled.plan()

    @functools.cached_property
    def _read(self) -> tuple[Source, Program, Diagnostics]:
        entries = None if self._entry is None else [self._entry]
        return read_program(self._path, entries=entries, **self._options)

    @property
    def compiled(self) -> Compiled:
        return self._compiled

    @functools.cached_property
    def _compiled(self) -> Compiled:
        return compile_program(*self._read)

    def tree_text(self) -> str:
        """The file as it is written; it need only parse, not pass the checks."""
        from wgcc.syntax.parser import parse
        from wgcc.syntax.tree_text import tree_text

        diagnostics = Diagnostics()
        tree = parse(Source(self._path.name, read_text(self._path), str(self._path)), diagnostics)
        if diagnostics.errors:
            raise WgError("the file does not parse", diagnostics)
        return tree_text(tree)

    def first_program(self) -> Program | None:
        return self._read[1]

    def source_lines(self) -> list[str]:
        return self._read[0].text.splitlines()

    def program(self, stage: str) -> Program:
        return run_passes(self._read[1], until=stage)

    def kernel_texts(self) -> Mapping[str, str]:
        return {kernel.name: kernel.text for kernel in self.compiled.planned.kernels}


class Bundle(Subject):
    def __init__(self, folder: Path, entry: str | None) -> None:
        self._folder = folder
        self._plan = _only(_read_plan(folder), entry)

    @property
    def plan(self) -> dict[str, Any]:
        return self._plan

    def source_lines(self) -> list[str]:
        """Those of the file in the bundle, if it is still there."""
        file = self._folder / Path(self._plan["model"]["source"]).name
        return read_text(file).splitlines() if file.is_file() else []

    def kernel_texts(self) -> Mapping[str, str]:
        files = self._folder / "kernels"
        return {
            kernel["name"]: read_bytes(
                files / Path(kernel["file"]).name, LARGEST_TEXT, "a kernel"
            ).decode("utf-8")
            for kernel in self._plan["kernels"]
        }


def _read_plan(folder: Path) -> dict[str, Any]:
    if not (folder / "plan.json").is_file():
        raise WgError(f"{folder} is not a bundle: it has no plan.json")
    return stored_plan(folder)


def _only(plan: dict[str, Any], entry: str | None) -> dict[str, Any]:
    if entry is None:
        return plan
    entries = plan["entries"]
    if entry not in entries:
        raise WgError(f"there is no entry {entry}; there are: {', '.join(entries)}")
    return {**plan, "entries": {entry: entries[entry]}}


def kernel_wat(subject: Subject, name: str) -> str:
    """`--wat`: the twin's form of the dispatches that a WGSL kernel serves, as WebAssembly text."""
    from wgcc.backends.wasm.twin import kernel_text

    compiled = subject.compiled
    if compiled is None:
        raise WgError("a bundle has no names of variables; for --wat give wgcc show the model file")
    name, _ = subject.kernel(name)
    kernels = next(file.kernels for file in compiled.planned.kernels if file.name == name)
    for dispatch in compiled.schedule.dispatches:
        if any(launch.kernel in kernels for launch in dispatch.launches.values()):
            return kernel_text(dispatch)
    raise AssertionError(f"no dispatch runs {name}")
