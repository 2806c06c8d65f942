"""The generator of tree-sitter's parsers: where it is, and how it comes here.

Debian has it since its release 13. For an older one the program is taken from there together with
the C library that it needs, into a folder of this checkout: nothing of the system changes.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "tree-sitter"
PACKAGE = "tree-sitter-cli"
RELEASE = "trixie"
_LIBRARIES = ("libc6", "libgcc-s1")


def program() -> str | None:
    own = FOLDER / "tree-sitter"
    return str(own) if own.exists() else shutil.which("tree-sitter")


def is_packaged() -> bool:
    """Whether this system's own packages have it."""
    return "Candidate: (none)" not in (text := _output("apt-cache", "policy", PACKAGE)) and bool(
        text
    )


def mirror() -> str | None:
    """Where this system's packages come from, if it is a Debian."""
    lines = _output("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(SITE)")
    sites = (line.split() for line in lines.splitlines())
    return next((site[2] for site in sites if site[:2] == ["Debian", "Debian"]), None)


def take_from_newer_debian(site: str, run: Callable[[Sequence[str]], None]) -> None:
    """Download the packages, with apt's signatures checked, and write a script that starts it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial", "root"):
        (FOLDER / name).mkdir(parents=True)
    sources = FOLDER / "sources.list"
    sources.write_text(f"deb {site} {RELEASE} main\n")
    apt = ["apt-get", "-qq", "-o", f"Dir::State::lists={FOLDER / 'lists'}"]
    apt += ["-o", f"Dir::Cache={FOLDER / 'cache'}", "-o", f"Dir::Etc::sourcelist={sources}"]
    apt += ["-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Sandbox::User=root"]
    run([*apt, "update"])
    get = [*apt, "download", PACKAGE, *_LIBRARIES]
    run(["sh", "-c", f"cd {shlex.quote(str(FOLDER))} && {shlex.join(get)}"])
    for package in FOLDER.glob("*.deb"):
        run(["dpkg-deb", "-x", str(package), str(FOLDER / "root")])
    _write_script()
    # Documents of the packages have links to others, which the linter of JavaScript complains of.
    for name in ("lists", "cache", "root/usr/share"):
        shutil.rmtree(FOLDER / name)


def _write_script() -> None:
    root = FOLDER / "root" / "usr"
    loader = next(root.glob("lib/*/ld-linux*.so.*"))
    command = [str(loader), "--library-path", str(loader.parent), str(root / "bin" / "tree-sitter")]
    script = FOLDER / "tree-sitter"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o755)


def _output(*command: str) -> str:
    if not shutil.which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True).stdout
