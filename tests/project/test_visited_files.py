"""How many files of the compiler a reader visits who follows one build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from adapters import ROOT

# Files in which a function runs while examples/sin is built. It may only shrink.
MOST_VISITED = 157
VISITS = """
import sys
from pathlib import Path

from wgcc.compiler import compile_file
# Imported here, because importing a module runs its classes, and only functions count.
import wgcc.backends.wasm.twin, wgcc.bundle.emit, wgcc.schedule.schedule
import wgcc.schedule.write_kernels
import wgcc_runtime.loader, wgcc_runtime.selftest

visited = set()
sys.setprofile(lambda frame, event, _: visited.add(frame.f_code.co_filename))
compile_file(sys.argv[1]).files()
sys.setprofile(None)
parts = [str(Path(part).resolve()) for part in sys.argv[2:]]
print("\\n".join(sorted(name for name in visited if name.startswith(tuple(parts)))))
"""


def test_a_build_visits_few_files() -> None:
    # The first build with a version of wgcc fills the cache folder, as with joined JavaScript.
    visited = _visited_files()
    if len(visited) > MOST_VISITED:
        visited = _visited_files()
    assert 50 < len(visited) <= MOST_VISITED, "\n".join(visited)


def _visited_files() -> list[str]:
    folders = (ROOT / "wgcc", ROOT / "runtime_py")
    command = [sys.executable, "-c", VISITS, ROOT / "examples" / "sin" / "model.wg", *folders]
    # Users' builds do not verify graphs between passes, as tests do.
    env = {name: value for name, value in os.environ.items() if name != "WGCC_VERIFY"}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return [Path(line).relative_to(ROOT).as_posix() for line in run.stdout.splitlines()]
