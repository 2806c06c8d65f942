"""Bundles that commands open: their plans as they are stored, and their models compiled again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc.errors import WgError
from wgcc.files import LARGEST_PLAN, read_bytes

if TYPE_CHECKING:
    from wgcc.compiler import Compiled


def stored_plan(bundle: Path) -> dict[str, Any]:
    """plan.json, after the runtime has checked it, so that callers can rely on every field."""
    from wgcc_runtime import load_plan

    load_plan(bundle)
    plan: dict[str, Any] = json.loads(read_bytes(bundle / "plan.json", LARGEST_PLAN, "a plan"))
    return plan


def compile_again(
    path: Path, plan: Mapping[str, Any], sizes: Mapping[str, float], seed: int | None = None
) -> tuple[Compiled, dict[str, Any]]:
    """The model of a bundle from its source, and its plan, which must be that of the bundle."""
    from wgcc.bundle.content import captured_patterns, has_pairs
    from wgcc.bundle.edited import as_built, check_same_model
    from wgcc.compiler import compile_file

    name, entries = plan["model"]["name"], list(plan["entries"])
    try:
        compiled = compile_file(
            path,
            sizes=dict(sizes),
            model=name,
            entries=entries,
            twin=False,
            seed=seed,
            capture=captured_patterns(plan),
            pairs=has_pairs(plan),
        )
    except WgError as failure:
        for problem in (item for item in failure.diagnostics if item.code == "WG0701"):
            problem.help(f"a bundle holds its model alone: add `--source PATH/{path.name}`")
        raise
    made: dict[str, Any] = json.loads(json.dumps(compiled.planned.plan))
    check_same_model(as_built(plan), made)
    return compiled, made
