"""`python -m wgcc` is `wgcc`."""

from __future__ import annotations

import sys

from wgcc.cli import main

sys.exit(main())
