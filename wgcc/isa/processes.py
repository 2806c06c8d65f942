"""Runs workers: processes that may crash or hang, which must give a clear error then."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from wgcc.errors import WgError

# All kernels of a large model, on a busy machine.
SECONDS = 900


def run_worker(
    what: str, command: Sequence[str], variables: Mapping[str, str], text: str = ""
) -> tuple[int, str, str]:
    """Its exit code and what it printed; `what` is its name in errors."""
    try:
        done = subprocess.run(
            command,
            input=text,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise WgError(f"{what} did not answer within {SECONDS} s") from None
    except OSError as error:
        raise WgError(f"{what} cannot be started: {error}") from None
    return done.returncode, done.stdout, done.stderr


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and "XDG_RUNTIME_DIR" not in line]
    return lines[-1].strip() if lines else "it printed nothing"
