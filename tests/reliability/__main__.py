"""Starts the long reliability trials; tests/RELIABILITY.md has their results.

python tests/reliability NAME [options], for every module NAME of tests/support/trials/.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SUPPORT = ROOT / "tests" / "support"
sys.path[:0] = [str(SUPPORT), str(ROOT / "runtime_py"), str(ROOT)]

import adapters  # noqa: E402


def main() -> int:
    adapters.use_software_drivers()
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="trial", required=True)
    for info in pkgutil.iter_modules([str(SUPPORT / "trials")]):
        module = importlib.import_module(f"trials.{info.name}")
        command = commands.add_parser(info.name, help=(module.__doc__ or "").split("\n")[0])
        module.arguments(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args()
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
