"""Asks the compiler of an unpacked archive, without numpy: `workbench_wire.py ARCHIVE EXAMPLES`.

Prints as JSON what the workbench would show.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from without_numpy import Blocked

WRONG = "tahn"


def main(archive: str, models: str, examples: str) -> dict[str, Any]:
    sys.path.insert(0, archive)
    import wgcc
    from wgcc.workbench.wire import Workbench

    assert Path(wgcc.__file__).is_relative_to(archive), wgcc.__file__
    bench = Workbench(models)
    problems = {}
    for example in json.loads(examples):
        program = {"files": example["files"], "main": example["main"]}
        problems[example["name"]] = bench.ask("check", program)["problems"]
    return {"examples": problems, **_sin(bench, json.loads(examples))}


def _sin(bench: Any, examples: list[Any]) -> dict[str, Any]:
    (text,) = next(e["files"].values() for e in examples if e["name"] == "sin")
    program = {"files": {"model.wg": text}, "main": "model.wg"}
    wrong = {"files": {"model.wg": f"// \N{GRINNING FACE}\n{text}".replace("tanh", WRONG)}}
    found = {"wrong": bench.ask("check", {**wrong, "main": "model.wg"}), "text": wrong["files"]}
    found["hints"] = bench.ask("check", program)["hints"]
    at = text.index("tanh")
    found |= {
        "hover": bench.ask("hover", {"at": at}),
        "signature": bench.ask("signature", {"at": text.index("mse(") + 4}),
        "labels": [item["label"] for item in bench.ask("complete", {"at": at})],
        "rename": bench.ask("rename", {"at": text.index("forward"), "name": "run"}),
        "format": bench.ask("format", program) == text,
        "broken": bench.ask("build", {**wrong, "main": "model.wg"}),
    }
    built = bench.ask("build", program)
    found["files"], found["kernels"] = list(built["files"]), list(built["kernels"])
    found["stages"] = {name: len(bench.ask("stage", {"name": name})) for name in ("ir", "opt")}
    found["links"] = bench.ask("links", {})
    found["figures"] = {name: bench.ask("figures", {"kernel": name}) for name in found["links"]}
    large = {"model.wg": text.replace("H = 64", "H = 16384")}
    found["large"] = bench.ask("build", {"files": large, "main": "model.wg", "twin": False})
    return found


if __name__ == "__main__":
    sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type]
    print(json.dumps(main(*sys.argv[1:3], sys.stdin.read())))
