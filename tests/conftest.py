"""What all tests share: software adapters chosen before wgpu starts, and `--bless`."""

from __future__ import annotations

import os
import signal

import adapters
from building import TWIN

adapters.use_software_drivers()
os.environ["WGCC_VERIFY"] = "1"  # every pass is checked against the graph's invariants
# Shells start background jobs with Ctrl-C ignored; tests of interrupts need it, in children too.
signal.signal(signal.SIGINT, signal.default_int_handler)

from typing import Any  # noqa: E402

import pytest  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="rewrite expected files (golden, file tests)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under --bless, run only the tests that have something to rewrite."""
    if not config.getoption("--bless"):
        return
    rewriting = [item for item in items if "bless" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in rewriting])
    items[:] = rewriting


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
