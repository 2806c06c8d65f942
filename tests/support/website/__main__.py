"""`python -m website -o FOLDER`: writes the documentation as a web site that needs no server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.pages import PAGES
from website.build import ROOT, LinkError, build_site
from wgcc.errors import WgError


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="dev.py site", description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=ROOT / ".cache" / "site")
    parser.add_argument(
        "--live",
        nargs="*",
        default=list(PAGES),
        choices=list(PAGES),
        metavar="NAME",
        help=f"example pages to build as well: {', '.join(PAGES)}; default: all",
    )
    parser.add_argument(
        "--workbench",
        action="store_true",
        help="put the workbench beside the pages, which run their programs there (needs Node)",
    )
    options = parser.parse_args(arguments)
    try:
        number = build_site(options.out, options.live, options.workbench)
    except (LinkError, OSError, WgError) as failure:
        print(f"dev.py site: {failure}", file=sys.stderr)
        return 1
    print(f"{number} pages: open {options.out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
