"""Answers what the worker of the workbench asks: one function for each question.

Questions and answers are plain data. Programs are files of a folder that the worker has written,
so that imports work as on a disk; the file that is open is given as text. A page checks long before
it compiles, so that functions import what only compiling needs; `prepare` does it meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc.errors import Diagnostic, Diagnostics, Help, Source, WgError, render_run
from wgcc.language_service import completion, inlay_hints, rename, signatures
from wgcc.language_service.analysis import Analysis, analyse
from wgcc.language_service.hover import hover
from wgcc.syntax import ast
from wgcc.workbench.units import Units

if TYPE_CHECKING:
    from wgcc.compiler import Compiled

Answer = Any
Phase = Callable[[str], None]
# What compiling imports, in portions after each of which questions can be answered.
COMPILING = (
    "wgcc.passes.simplify", "wgcc.passes.pipeline", "wgcc.compiler", "wgcc.workbench.capturing",
    "wgcc.schedule.kernels.matmul", "wgcc.schedule.schedule", "wgcc.schedule.write_kernels",
    "wgcc.backends.wasm.twin", "wgcc.bundle.plan", "wgcc.bundle.emit",
)  # fmt: skip
# A page that builds more would have no memory left to train.
MOST_BYTES = 512 << 20


class Workbench:
    """The last check and the last build, which later questions are about."""

    def __init__(self, folder: str, phase: Phase = lambda _: None) -> None:
        self._folder = Path(folder)
        self._phase = phase
        self._analysis: Analysis | None = None
        self._compiled: Compiled | None = None
        self._traced: Any = None
        self._prepared = 0

    def ask(self, question: str, settings: Mapping[str, Any]) -> Answer:
        return QUESTIONS[question](self, **settings)

    def prepare(self) -> bool:
        """Import the next portion of what compiling needs; False when all of it is there."""
        if self._prepared < len(COMPILING):
            import_module(COMPILING[self._prepared])
            self._prepared += 1
        return self._prepared < len(COMPILING)

    def check(self, files: Mapping[str, str], main: str) -> Answer:
        self._write(files)
        path = str(self._folder / main)
        self._analysis = analyse(Source(path, files[main], path))
        return check_answer(self._analysis)

    def hover(self, at: int) -> Answer:
        analysis, units = self._last_check()
        explanation = hover(analysis, units.offset(at))
        if explanation is None:
            return None
        span = explanation.span
        return {
            "from": units.of(span.start),
            "to": units.of(span.end),
            "text": explanation.markdown,
        }

    def complete(self, at: int) -> Answer:
        analysis, units = self._last_check()
        items = completion.complete(analysis, units.offset(at))
        return [
            {"label": i.label, "kind": i.kind, "detail": i.detail, "text": i.markdown}
            for i in items
        ]

    def signature(self, at: int) -> Answer:
        analysis, units = self._last_check()
        call = signatures.signature_help(analysis, units.offset(at))
        if call is None:
            return None
        return {"signature": call.signature, "parameters": list(call.parameters),
                "active": call.active, "text": call.documentation}  # fmt: skip

    def rename(self, at: int, name: str) -> Answer:
        analysis, units = self._last_check()
        try:
            edits = rename.rename(analysis, units.offset(at), name, self._others())
        except rename.CannotRename as problem:
            return {"problem": str(problem)}
        return {"edits": [_edit(span.source, span.start, span.end, text) for span, text in edits]}

    def format(self, files: Mapping[str, str], main: str) -> Answer:
        from wgcc.syntax.layout import format_source

        return format_source(Source(main, files[main]), Diagnostics())

    def build(
        self,
        files: Mapping[str, str],
        main: str,
        sizes: Mapping[str, float] | None = None,
        twin: bool = True,
        capture: Iterable[str] = (),
    ) -> Answer:
        """The files of the bundle, or the diagnostics that prevent it."""
        from wgcc.bundle.javascript import kernel_codes

        self._write(files)
        try:
            compiled = self._compile(self._folder / main, sizes or {}, twin, list(capture))
        except WgError as error:
            return {"problem": render_run(error.diagnostics) or str(error)}
        written = compiled.runtime_files()
        return {"files": written, "kernels": kernel_codes(written)}

    def bundle(self) -> Answer:
        """All files of the last build, as `wgcc build` writes them: with a twin."""
        written = replace(self._last_build(), twin=True).files(drawn=True)
        return {name: bytes(content) for name, content in written.items()}

    def _compile(
        self, path: Path, sizes: Mapping[str, float], twin: bool, capture: Iterable[str]
    ) -> Compiled:
        from wgcc.compiler import compile_program
        from wgcc.workbench.capturing import read_capturing

        self._phase("checking")
        source, program, diagnostics = read_capturing(path, sizes, capture)
        self._phase("fusing and writing kernels")
        compiled = compile_program(source, program, diagnostics, twin=twin)
        self._check_size(compiled)
        # What was built before is asked about until something else is.
        self._traced, self._compiled = program, compiled
        return compiled

    def _check_size(self, compiled: Compiled) -> None:
        needed, most = compiled.planned.plan["memory"]["peak"] >> 20, MOST_BYTES >> 20
        if needed > most:
            raise WgError(
                f"the model needs {needed:,} MiB; the workbench trains models of up to {most} MiB. "
                "Build it with `wgcc build`, or choose smaller sizes."
            )

    def names(self) -> Answer:
        """The values of the last program that was checked, which can be captured."""
        from wgcc.passes.captures import names_to_capture

        analysis, _ = self._last_check()
        names: dict[str, Answer] = {}
        for program in list(analysis.programs.values())[-1:]:
            # The entry that trains comes last, and its types are shown.
            for graph in sorted(program.entries.values(), key=lambda graph: graph.entry.trains):
                for name, (text, line) in names_to_capture(graph).items():
                    # An optimizer's names for what it writes into parameters say nothing more.
                    if not name.endswith(".new"):
                        names[name] = {"name": name, "type": text, "line": line}
        return list(names.values())

    def graph(self, entry: str) -> Answer:
        """The dispatches of an entry of the last build, as runtime_js/graph reads a page."""
        from wgcc.bundle.drawing import drawing_record, plan_drawing
        from wgcc.bundle.model_places import model_places

        plan = self._last_build().planned.plan
        drawing = plan_drawing(plan, entry, model_places(plan, entry))
        return json.dumps({"entries": [drawing_record(entry, [("dispatches", drawing)])]})

    def links(self) -> Answer:
        """The lines that variables and bindings of each kernel of the last build come from."""
        from wgcc.workbench.links import kernel_links

        return kernel_links(self._last_build())

    def figures(self, kernel: str) -> Answer:
        """The figures of the access model for a kernel of the last build."""
        from wgcc.workbench.figures import kernel_figures

        planned = self._last_build().planned
        (text,) = (file.text for file in planned.kernels if file.name == kernel)
        return kernel_figures(planned.plan, kernel, text)

    def stages(self) -> Answer:
        from wgcc.passes.pipeline import STAGES

        return list(STAGES)

    def stage(self, name: str) -> Answer:
        """The program after a pass, as text."""
        from wgcc.ir.text import program_text
        from wgcc.passes.pipeline import run_passes

        self._last_build()
        return program_text(run_passes(self._traced, until=name))

    def _write(self, files: Mapping[str, str]) -> None:
        """Only these files are there afterwards: imports find no program of an earlier question."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            if path.name not in files:
                path.unlink()
        for name, text in files.items():
            path = self._folder / Path(name).name
            path.write_text(text, encoding="utf-8")

    def _others(self) -> list[Source]:
        assert self._analysis is not None
        own = Path(self._analysis.source.path)
        paths = (path for path in sorted(self._folder.glob("*.wg")) if path != own)
        return [Source(str(path), path.read_text("utf-8"), str(path)) for path in paths]

    def _last_build(self) -> Compiled:
        if self._compiled is None:
            raise WgError("nothing was built yet")
        return self._compiled

    def _last_check(self) -> tuple[Analysis, Units]:
        if self._analysis is None:
            raise WgError("nothing was checked yet")
        return self._analysis, Units(self._analysis.source.text)


def check_answer(analysis: Analysis) -> Answer:
    """Diagnostics and shapes of the text that is open."""
    units = Units(analysis.source.text)
    problems = [_problem(analysis, units, item) for item in analysis.diagnostics]
    if analysis.problem:
        problems.append({"from": 0, "to": 0, "severity": "error", "code": "", "line": 1,
                         "message": analysis.problem, "advice": [], "fixes": [],
                         "text": analysis.problem})  # fmt: skip
    hints = inlay_hints.inlay_hints(analysis, 0, len(analysis.source.text))
    shown = [{"at": units.of(hint.offset), "text": hint.text.strip()} for hint in hints]
    models = list(analysis.programs)
    return {"problems": problems, "hints": shown, "models": models, "dims": _dims(analysis)}


def _dims(analysis: Analysis) -> Answer:
    """Sizes that the program gives a number: a page can build it with others."""
    declared = (item for item in analysis.tree.items if isinstance(item, ast.Dims))
    sizes = ((dim.name.text, dim.value) for item in declared for dim in item.dims)
    return [
        {"name": name, "value": value.value} for name, value in sizes if isinstance(value, ast.Int)
    ]


def _problem(analysis: Analysis, units: Units, item: Diagnostic) -> Answer:
    is_here = item.span.source is analysis.source
    where = "" if is_here else f"{Path(item.span.source.path).name}:{item.span.line}: "
    label = f" ({item.label})" if item.label else ""
    return {
        "from": units.of(item.span.start) if is_here else 0,
        "to": units.of(item.span.end) if is_here else 0,
        "line": item.span.line if is_here else 1,
        "severity": item.severity,
        "code": item.code,
        "message": f"{where}{item.message}{label}",
        "advice": [*item.notes, *(f"help: {h.text}" for h in item.helps if h.text)],
        "fixes": list(_fixes(analysis, item.helps)),
    }


def _fixes(analysis: Analysis, helps: Iterable[Help]) -> Iterable[Answer]:
    for help_ in helps:
        own = [edit for edit in help_.edits if edit[0].source is analysis.source]
        if own and len(own) == len(help_.edits):
            edits = [_edit(span.source, span.start, span.end, text) for span, text in own]
            title = help_.text.splitlines()[0] if help_.text else f"write `{own[0][1].strip()}`"
            yield {"title": title, "edits": edits}


def _edit(source: Source, start: int, end: int, text: str) -> Answer:
    units = Units(source.text)
    file = Path(source.path).name
    return {"file": file, "from": units.of(start), "to": units.of(end), "text": text}


QUESTIONS: dict[str, Callable[..., Answer]] = {
    "prepare": Workbench.prepare,
    "check": Workbench.check,
    "hover": Workbench.hover,
    "complete": Workbench.complete,
    "signature": Workbench.signature,
    "rename": Workbench.rename,
    "format": Workbench.format,
    "build": Workbench.build,
    "bundle": Workbench.bundle,
    "names": Workbench.names,
    "graph": Workbench.graph,
    "links": Workbench.links,
    "figures": Workbench.figures,
    "stages": Workbench.stages,
    "stage": Workbench.stage,
}
