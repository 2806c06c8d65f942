"""A cluster of this machine alone: its processes listen on the loopback address only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

# Without clusters, as on Windows and macOS, this machine has the loopback address for Ray.
VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextlib.contextmanager
def on_loopback() -> Iterator[None]:
    """Within it, a cluster can be started; afterwards others can be connected to again."""
    from ray._private import ray_constants

    before = os.environ.get(VARIABLE)
    # Ray has read the variable when it was imported; processes that it starts read it again.
    was_enabled = ray_constants.ENABLE_RAY_CLUSTER
    os.environ[VARIABLE] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = was_enabled
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before
