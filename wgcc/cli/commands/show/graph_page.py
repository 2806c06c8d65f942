"""`wgcc show --graph html`: a page with the graphs of all stages, the source and the kernels.

It is one file without anything of others. The modules of runtime_js/graph draw it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import PurePosixPath

from wgcc.bundle.drawing import Drawing, drawing_record, graph_drawing, plan_drawing
from wgcc.bundle.javascript import strip_css, strip_javascript
from wgcc.bundle.model_places import model_places
from wgcc.bundle.modules import join_modules
from wgcc.cli.commands.show.kernel_facts import facts_comment, kernel_facts
from wgcc.cli.commands.show.subject import Subject
from wgcc.files import data_dir
from wgcc.passes.pipeline import STAGES, run_passes

FUSED = "fused"
_SCRIPT, _ENTRY = "graph.js", "graph/graph.js"

Drawings = dict[str, Drawing]


def graph_page(subject: Subject, stage: str) -> str:
    """The page, which begins with `stage`."""
    plan = subject.plan
    stages = [*_stages(subject), (FUSED, _draw_kernels(subject))]
    if stage not in dict(stages):
        stage = _stage_before(subject, stage, [name for name, _ in stages])
    data = {
        "file": plan["model"]["source"],
        "lines": subject.source_lines(),
        "stage": stage,
        "kernels": dict(_kernels(subject)),
        "entries": [
            drawing_record(name, [(stage, drawings[name]) for stage, drawings in stages])
            for name in plan["entries"]
        ],
    }
    folder = data_dir("runtime_js") / "graph"
    texts = {
        f"graph/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted(folder.glob("*.js"))
    }
    script = strip_javascript(join_modules(texts, {_SCRIPT: _ENTRY}, {})[_SCRIPT])
    title = f"{plan['model']['name']}: {PurePosixPath(plan['model']['source']).name}"
    page = (folder / "graph.html").read_text(encoding="utf-8")
    parts = {
        "__TITLE__": escape(title),
        "__STYLE__": strip_css((folder / "graph.css").read_text(encoding="utf-8")),
        "__SCRIPT__": script,
        # Nothing in it can end the element that holds it.
        "__DATA__": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace(
            "<", "\\u003c"
        ),
    }
    for name, text in parts.items():
        page = page.replace(name, text)
    return page


def _stages(subject: Subject) -> Iterator[tuple[str, Drawings]]:
    """Those of a model whose graphs differ from the one before; a bundle has none."""
    program = subject.first_program()
    if program is None:
        return
    before: Drawings = {}
    for number, stage in enumerate(STAGES):
        if number:
            program = run_passes(program, until=stage, since=STAGES[number - 1])
        drawings = {name: graph_drawing(graph) for name, graph in program.entries.items()}
        if drawings != before:
            yield stage, drawings
        before = drawings


def _stage_before(subject: Subject, stage: str, drawn: Sequence[str]) -> str:
    """The last stage that changed something; of a bundle, `program` says that there is none."""
    subject.program(stage)
    return [name for name in STAGES[: STAGES.index(stage)] if name in drawn][-1]


def _draw_kernels(subject: Subject) -> Drawings:
    plan = subject.plan
    return {name: plan_drawing(plan, name, model_places(plan, name)) for name in plan["entries"]}


def _kernels(subject: Subject) -> Iterator[tuple[str, str]]:
    for name, text in subject.kernel_texts().items():
        yield name, facts_comment(kernel_facts(subject.plan, name, text)) + text
