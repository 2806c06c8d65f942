"""`python measured_process.py FIGURES SECONDS MEGABYTES COMMAND…`: what a command uses, as JSON.

A process of its own, because the memory of whoever starts a process counts as the process's.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path


def main(figures: str, seconds: str, megabytes: str, *command: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
        resource.setrlimit(resource.RLIMIT_AS, (int(megabytes) << 20, int(megabytes) << 20))

    process = subprocess.Popen(command, preexec_fn=limit)
    _, status, used = os.wait4(process.pid, 0)
    found = {
        "code": os.waitstatus_to_exitcode(status),
        "seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
    }
    Path(figures).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
