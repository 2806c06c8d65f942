"""What all tests share: software adapters chosen before wgpu starts, and `--bless`."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator

import adapters
from building import BUILT, TWIN

adapters.use_software_drivers()
# Threads of numpy's products would wait for cores that other processes of the tests use.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["WGCC_VERIFY"] = "1"  # every pass is checked against the graph's invariants
# Shells start background jobs with Ctrl-C ignored; tests of interrupts need it, in children too.
signal.signal(signal.SIGINT, signal.default_int_handler)

from typing import Any  # noqa: E402

import pytest  # noqa: E402

import file_times  # noqa: E402
import left_processes  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="rewrite expected files (golden, file tests)"
    )
    parser.addoption(
        "--record-times", action="store_true", help="write how long each file took (file_times.py)"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-times"):
        config.pluginmanager.register(file_times.Meter())
    if hasattr(config, "workerinput"):
        return
    os.environ[BUILT] = tempfile.mkdtemp(prefix="wgcc-bundles-")
    if config.getoption("--record-times"):
        config.pluginmanager.register(file_times.Recorder())


@pytest.hookimpl(wrapper=True)  # after the workers have ended
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    yield
    if hasattr(session.config, "workerinput") or BUILT not in os.environ:
        return
    for command in left_processes.still_there(os.environ[BUILT]):
        print(f"\na test left a process behind: {command}", file=sys.stderr)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and BUILT in os.environ:
        shutil.rmtree(os.environ.pop(BUILT))


@pytest.hookimpl(trylast=True)  # after pytest has put tests with the same adapter together
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Processes that share files: longest first. Under --bless, only tests that rewrite files."""
    if hasattr(config, "workerinput"):
        items[:] = file_times.longest_first(items)
    if not config.getoption("--bless"):
        return
    rewriting = [item for item in items if "bless" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in rewriting])
    items[:] = rewriting


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Thousands of tests and all their modules stay until the end: no later collection of garbage
    needs to visit them, which took a twentieth of the time of tests that compile. What these make
    is rarely garbage, and is visited as rarely as in the command line's processes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--bless"))


@pytest.fixture(scope="session", params=["lavapipe", "swiftshader"])
def adapter(request: pytest.FixtureRequest) -> str:
    """The name of a software adapter: tests that use it run once on each."""
    return str(request.param)


@pytest.fixture(scope="session", params=["lavapipe", "swiftshader", TWIN])
def target(request: pytest.FixtureRequest) -> str:
    """A software adapter or the twin, for bundles that have one: tests run once on each."""
    return str(request.param)


@pytest.fixture(scope="session")
def device(adapter: str) -> Any:
    """A wgpu device on a software adapter, with WebGPU's default limits: tests run once on each."""
    try:
        return adapters.request_device(adapter)
    except LookupError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def machine(target: str) -> Any:
    """What `load` takes as a device: a wgpu device on each software adapter, and the twin."""
    if target == TWIN:
        return TWIN
    try:
        return adapters.request_device(target)
    except LookupError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def lavapipe() -> Any:
    """A device for tests whose result does not depend on the adapter."""
    try:
        return adapters.request_device("lavapipe")
    except LookupError as error:
        pytest.fail(str(error), pytrace=False)
