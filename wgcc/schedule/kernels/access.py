"""How dispatches bind buffers, so that equal layers use one kernel wherever their values are.

WebGPU wants a buffer that a dispatch writes to be bound `read_write` wherever it is bound, also
where it is only read. So a value is `read` in one layer and `read_write` in another, where it
happens to be in the buffer of a result. Kernels that differ in nothing else become the one that
serves all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from wgcc.schedule.kernel import WORD, Dispatch, Kernel, Launch, Place

# The numbers of the bindings that are `read_write`.
Access = frozenset[int]


def share_access(dispatches: Sequence[Dispatch]) -> list[Dispatch]:
    """The dispatches, with one access for all that have the same launches."""
    alike: dict[tuple[tuple[str, Launch], ...], list[int]] = {}
    for i, dispatch in enumerate(dispatches):
        alike.setdefault(tuple(dispatch.launches.items()), []).append(i)
    found = list(dispatches)
    for members in alike.values():
        launches = dispatches[members[0]].launches
        regions = [dispatches[i].regions for i in members]
        common = _launches(launches, _access(launches, [r for r in regions if not _overlap(r)]))
        for i, own in zip(members, regions, strict=True):
            alone = _launches(launches, _access(launches, [own])) if _overlap(own) else common
            found[i] = replace(dispatches[i], launches=alone)
    return found


def _access(launches: Mapping[str, Launch], dispatches: Iterable[Sequence[Place]]) -> Access:
    """What is written, and what is in the same buffer as that in one of the dispatches."""
    known = list(dispatches)
    kernels = (launch.kernel for launch in launches.values())
    access = {i for kernel in kernels for i, b in enumerate(kernel.bindings) if b.written}
    before = -1
    while len(access) > before:
        before = len(access)
        for regions in known:
            written = {regions[i].buffer for i in access}
            access |= {i for i, region in enumerate(regions) if region.buffer in written}
    return frozenset(access)


def _launches(launches: Mapping[str, Launch], access: Access) -> dict[str, Launch]:
    return {
        name: replace(launch, kernel=_with_access(launch.kernel, access))
        for name, launch in launches.items()
    }


def _with_access(kernel: Kernel, access: Access) -> Kernel:
    bindings = (replace(b, aliased=i in access) for i, b in enumerate(kernel.bindings))
    return replace(kernel, bindings=tuple(bindings))


def _overlap(regions: Sequence[Place]) -> bool:
    """Do two bindings share words? They may do so only as long as both are `read`."""
    return any(
        a.buffer == b.buffer and a.offset < _end(b) and b.offset < _end(a)
        for a, b in combinations(regions, 2)
    )


def _end(region: Place) -> int:
    return region.offset + region.bytes // WORD


__all__ = ["share_access"]
