"""`python tests/lint [FOLDER]`: prints every problem of a checkout, and fails if there is one."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime_py"), str(ROOT / "tests")]

from lint.checks import problems  # noqa: E402
from lint.tree import Tree  # noqa: E402


def main(folder: Path) -> int:
    lines = sorted({str(problem) for problem in problems(Tree(folder))})
    print("".join(f"{line}\n" for line in lines), end="")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT))
