"""The exact bits of the twin's outputs in the self-test: they are the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wgcc.bundle.plan import Plan

# A twin with more memory is not run during a build, which would hold its weights three times.
MOST_BYTES = 1 << 27


def with_twin_digests(plan: Plan, make_files: Callable[[], Mapping[str, bytes]]) -> Plan:
    """`make_files` gives what the twin needs. Without wasmtime, or values, nothing is recorded.

    An entry whose steps overflow in f32, though not in the float64 of the expected outputs, is left
    without a test.
    """
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.loader import open_twin
    from wgcc_runtime.selftest import twin_digests

    entries = plan["selftest"]["entries"]
    if "twin" not in plan or not entries or plan["twin"]["bytes"] > MOST_BYTES:
        return plan
    files = make_files()
    try:
        with open_twin(lambda name, most: files.get(name)) as model:
            digests = twin_digests(model)
    except WgccError as error:
        if error.code not in ("no-wasmtime", "weights"):
            raise
        return plan
    recorded = {
        name: {**test, "twin": digests[name]} for name, test in entries.items() if name in digests
    }
    return {**plan, "selftest": {**plan["selftest"], "entries": recorded}}
