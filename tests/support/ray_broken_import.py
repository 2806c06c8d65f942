"""A worker whose module cannot be imported in an actor's process."""

from __future__ import annotations

import sys

from wgcc_runtime.distributed.ray_worker import RayWorker

if "default_worker" in sys.argv[0]:
    raise ImportError("libsomething.so: cannot open shared object file")


class BrokenWorker(RayWorker):
    pass
