"""`wgcc show`: explains a model or bundle, at every stage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wgcc.backends import printing_backends
from wgcc.cli import shell_completion
from wgcc.cli.options import json_option, model_options, strict_dims_option
from wgcc.cli.printing import show, show_json
from wgcc.isa.targets import TARGETS

if TYPE_CHECKING:
    from wgcc.cli.commands.show.subject import Subject


# The stages of `PASSES` of wgcc/passes/pipeline.py, which is imported only where it is needed.
PREPARATION = (
    *("placed", "products", "gradients", "statistics", "columns", "flat", "turned", "added"),
    *("split", "split-simplified", "own-gradients", "arenas", "numbers", "packed", "results"),
    "prepared",
)
IR_STAGES = ("ir", "hoisted", "grad", "opt", "captured", "expanded", "simplified", *PREPARATION)
# Those of `STEPS` of wgcc/schedule/steps.py.
STEP_STAGES = (
    *("groups", "delayed", "writes", "apart", "kept", "stored", "ordered", "exchange"),
    *("beside", "loops", "lives", "slots", "kernels"),
)
STAGES = ("ast", *IR_STAGES, *STEP_STAGES, "fused", "plan")


@click.command()
@click.argument("path", metavar="MODEL.wg|BUNDLE", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--stage",
    type=click.Choice(STAGES),
    help="Print the model after this stage: syntax tree, traced graphs, work taken out of loops, "
    "gradients added, optimizer added, captures added, composite ops expanded, simplified; "
    "parameters placed, and the steps that prepare graphs for kernels, up to `prepared`; "
    "groups of ops, and the steps that order and place them, up to `slots`; fused kernels with the "
    "reasons for them, plan.json.",
)
@click.option(
    "--as",
    "language",
    type=click.Choice(["wg", *printing_backends()]),
    help="With --stage: print its graphs as a program of the language (wg). With --kernel: print "
    "its WGSL alone (wgsl), or as CUDA C++ (cuda), to ask a GPU's compiler about it.",
)
@click.option(
    "--kernel",
    metavar="NAME",
    shell_complete=shell_completion.kernels,
    help="Print the WGSL of a kernel, with its threads, memory, registers and operations per byte.",
)
@click.option(
    "--wat",
    is_flag=True,
    help="With --kernel: print what it is on machines without a GPU, as WebAssembly text.",
)
@click.option(
    "--kernels",
    is_flag=True,
    help="Print these figures of all kernels as a table: what they do to memory and caches, and "
    "the least time they can take on five GPUs, by a model that needs none.",
)
@click.option(
    "--isa",
    "target",
    type=click.Choice(TARGETS),
    help="Compile kernels for a Radeon (rdna2, rdna3) or a GeForce (sm_89) that need not be there: "
    "registers, spills, instructions of the hot loop and what they are for. With --kernel, the "
    "listing. `wgcc doctor` says what that needs.",
)
@click.option("--explain", is_flag=True, help="With --kernels: say what each column means.")
@click.option("--memory", is_flag=True, help="Print what GPU memory holds, and when.")
@click.option(
    "--graph",
    type=click.Choice(["text", "dot", "svg", "html"]),
    help="Draw the dependencies of kernels or, with --stage, of ops.",
)
@click.option(
    "--entry",
    metavar="NAME",
    shell_complete=shell_completion.entries,
    help="Show only this entry.",
)
@model_options
@strict_dims_option
@json_option
def command(
    path: Path,
    stage: str | None,
    language: str | None,
    kernel: str | None,
    wat: bool,
    kernels: bool,
    target: str | None,
    explain: bool,
    memory: bool,
    graph: str | None,
    entry: str | None,
    sizes: dict[str, float],
    model: str | None,
    seed: int | None,
    strict_dims: bool,
    as_json: bool,
) -> None:
    """Explain a model file or a bundle.

    Without options, prints its parameters, entries, kernels and memory.
    """
    from wgcc.cli.commands.show.subject import open_subject

    _check_options(kernel, wat, kernels, explain, memory, graph, as_json)
    if target is not None and any((kernels, memory, wat, graph, stage, language)):
        raise click.UsageError("--isa goes with --kernel, --entry and --json alone.")
    _check_language(stage, kernel, language)
    subject = open_subject(path, sizes, model, seed, entry, strict_dims)
    if wat and kernel is not None:
        from wgcc.cli.commands.show.subject import kernel_wat

        show(kernel_wat(subject, kernel))
    elif target is not None:
        _show_isa(subject, kernel, target, as_json)
    elif language is not None and kernel is not None:
        show(_print_as(language, *subject.kernel(kernel)).rstrip("\n"))
    elif kernel is not None or kernels:
        _show_kernels(subject, kernel, explain, as_json)
    elif as_json:
        _show_json(subject, stage, memory, graph)
    else:
        show(_text(subject, stage, language, memory, graph).rstrip("\n"))


def _text(
    subject: Subject, stage: str | None, language: str | None, memory: bool, graph: str | None
) -> str:
    from wgcc.cli.commands.show.overview import memory_text, overview

    if memory:
        return memory_text(subject)
    if graph is not None:
        return _drawing(subject, stage or "fused", graph)
    return overview(subject.plan) if stage is None else _stage_text(subject, stage, language)


def _check_options(
    kernel: str | None,
    wat: bool,
    kernels: bool,
    explain: bool,
    memory: bool,
    graph: str | None,
    as_json: bool,
) -> None:
    if sum((kernel is not None, kernels, memory, graph is not None)) > 1:
        raise click.UsageError("choose one of --kernel, --kernels, --memory and --graph.")
    if wat and (kernel is None or as_json):
        raise click.UsageError("--wat goes with --kernel NAME, and not with --json.")
    if explain and (not kernels or as_json):
        raise click.UsageError("--explain goes with --kernels, and not with --json.")


def _check_language(stage: str | None, kernel: str | None, language: str | None) -> None:
    if language == "wg" and stage not in IR_STAGES:
        raise click.UsageError(f"--as wg goes with --stage {', '.join(IR_STAGES)}.")
    if language not in (None, "wg") and kernel is None:
        raise click.UsageError(f"--as {language} goes with --kernel NAME.")


def _print_as(language: str, name: str, text: str) -> str:
    from wgcc.backends import print_as
    from wgcc.kernel.parse import parse_module

    return print_as(language, parse_module(text), name)


def _show_kernels(subject: Subject, kernel: str | None, explain: bool, as_json: bool) -> None:
    from wgcc.cli.commands.show.kernel_facts import facts_comment, facts_table, kernel_facts
    from wgcc.cli.commands.show.step_times import step_times

    if kernel is None:
        texts = subject.kernel_texts()
        all_facts = [kernel_facts(subject.plan, name, text) for name, text in texts.items()]
        show_json(all_facts) if as_json else show(facts_table(all_facts) + step_times(all_facts))
        if explain:
            from wgcc.cli.columns import KERNEL_COLUMNS, explain_columns

            show("\n" + explain_columns(KERNEL_COLUMNS))
        return
    name, text = subject.kernel(kernel)
    facts = kernel_facts(subject.plan, name, text)
    show_json(facts) if as_json else show(facts_comment(facts) + text.rstrip("\n"))


def _show_isa(subject: Subject, kernel: str | None, target: str, as_json: bool) -> None:
    from wgcc.cli.commands.show.isa import isa_json, isa_listing, isa_table
    from wgcc.isa.report import report

    texts = dict([subject.kernel(kernel)]) if kernel is not None else subject.kernel_texts()
    reports = report(texts, target)
    if as_json:
        show_json(isa_json(reports, with_listing=kernel is not None))
    elif kernel is None:
        show(isa_table(reports, texts, target))
    else:
        show(isa_listing(reports, next(iter(texts.values())), target))


def _show_json(subject: Subject, stage: str | None, memory: bool, graph: str | None) -> None:
    if graph is not None or stage not in (None, "plan"):
        raise click.UsageError(
            "--json can be used alone or with --kernel, --kernels, --memory or --stage plan."
        )
    if memory:
        from wgcc.cli.commands.show.overview import memory_facts

        show_json(memory_facts(subject))
    elif stage == "plan":
        show_json(subject.plan)
    else:
        from wgcc.cli.commands.show.overview import overview_facts

        show_json(overview_facts(subject.plan))


def _stage_text(subject: Subject, stage: str, language: str | None) -> str:
    if language is not None:
        from wgcc.exporting.as_source import program_source

        return program_source(subject.program(stage))
    if stage == "ast":
        return subject.tree_text()
    if stage in IR_STAGES:
        from wgcc.ir.text import program_text

        return program_text(subject.program(stage))
    if stage in STEP_STAGES:
        from wgcc.passes.pipeline import PREPARED
        from wgcc.schedule.steps import stage_text

        return stage_text(subject.program(PREPARED), stage)
    if stage == "plan":
        from wgcc.bundle.plan import plan_text

        return plan_text(subject.plan)
    from wgcc.cli.commands.show.overview import fused_text

    return fused_text(subject)


def _drawing(subject: Subject, stage: str, form: str) -> str:
    from wgcc.bundle.drawing import draw, graph_drawing, plan_drawing

    if form == "html" and stage in (*IR_STAGES, "fused"):
        from wgcc.cli.commands.show.graph_page import graph_page

        return graph_page(subject, stage)
    if stage in IR_STAGES:
        graphs = subject.program(stage).entries
        drawings = [graph_drawing(graph) for graph in graphs.values()]
    elif stage == "fused":
        drawings = [plan_drawing(subject.plan, name) for name in subject.plan["entries"]]
    else:
        raise click.UsageError(f"--graph cannot draw the stage {stage}.")
    return draw(drawings, form)
