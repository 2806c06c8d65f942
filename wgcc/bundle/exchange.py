"""What machines that train one model together exchange in each step, as a record of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wgcc.ir.graph import FLOATS, Graph
from wgcc.ir.places import is_own_state
from wgcc.schedule.kernel import WORD, Exchange


def exchange(graph: Graph, shared: Exchange, buffers: Mapping[str, int]) -> dict[str, Any]:
    """Gradients to average before a dispatch; outputs and state to average after the call."""
    if shared.why:
        return {"why": shared.why}
    return {
        "dispatch": shared.dispatch,
        "gradients": [
            {"buffer": buffers[p.buffer], "offset": p.offset * WORD, "size": p.count * WORD}
            for p in shared.gradients
        ],
        "outputs": [n for n, v in graph.outputs.items() if v.dtype in FLOATS and v.type.size == 1],
        "state": sorted(_averaged(graph)),
    }


def _averaged(graph: Graph) -> list[str]:
    """Floats that the program itself keeps, such as running means of a batch norm."""
    written = [value.name for value in graph.state if value.name in graph.writes]
    return [n for n in written if is_own_state(n) and graph.writes[n].dtype in FLOATS]
