"""How many files of the compiler a reader visits who follows one build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from adapters import ROOT

# Files in which a function runs while examples/sin is built. It may only shrink.
MOST_VISITED = 160
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
    folders = (ROOT / "wgcc", ROOT / "runtime_py")
    command = [sys.executable, "-c", VISITS, ROOT / "examples" / "sin" / "model.wg", *folders]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    visited = [Path(line).relative_to(ROOT).as_posix() for line in run.stdout.splitlines()]
    assert 50 < len(visited) <= MOST_VISITED, "\n".join(visited)
