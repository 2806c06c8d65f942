"""Counts what lanes of a subgroup touch at once: sectors of memory, banks of workgroup memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from wgcc.lazy_numpy import Array, np

# Memory is fetched in sectors of 32 bytes.
SECTOR = 32
# Workgroup memory has 32 banks of 4 bytes; wider accesses are served in parts of 128 bytes.
BANKS, BANK = 32, 4
SUBGROUPS = (32, 64)


@dataclass(slots=True)
class Site:
    """One load or store in the text of a kernel, summed over what was executed of it.

    `sectors` and `ideal` are those of 32 lanes; `sectors_64`, `ideal_64` of 64. `ideal` is what the
    same bytes would take side by side.
    """

    name: str
    is_store: bool
    size: int = 4
    accesses: float = 0.0
    sectors: float = 0.0
    ideal: float = 0.0
    sectors_64: float = 0.0
    ideal_64: float = 0.0


@dataclass(slots=True)
class SharedSite:
    """One access of workgroup memory: `ways` lanes wait for the same bank, at most.

    `cycles` is how long it takes where 128 bytes are served in a cycle, `slow_cycles` where 64 are.
    """

    name: str
    is_store: bool
    ways: int = 1
    accesses: float = 0.0
    cycles: float = 0.0
    slow_cycles: float = 0.0


@dataclass(slots=True)
class Traffic:
    """All sites of a kernel, by where they are in its tree."""

    sites: dict[int, Site] = field(default_factory=dict)
    shared: dict[int, SharedSite] = field(default_factory=dict)

    def touch(self, site: Site, addresses: Array, mask: Array, weight: float) -> None:
        """`addresses` in bytes, one per lane."""
        for lanes in SUBGROUPS:
            groups, active = _rows(addresses, lanes), _rows(mask, lanes, fill=False)
            sectors = float(_distinct(groups // SECTOR, active).sum()) * weight
            size = _distinct(groups, active) * site.size
            ideal = float((-(-size // SECTOR)).sum()) * weight
            if lanes == SUBGROUPS[0]:
                site.accesses += float(active.any(axis=1).sum()) * weight
                site.sectors, site.ideal = site.sectors + sectors, site.ideal + ideal
            else:
                site.sectors_64, site.ideal_64 = site.sectors_64 + sectors, site.ideal_64 + ideal

    def share(
        self, site: SharedSite, addresses: Array, size: int, mask: Array, weight: float
    ) -> None:
        unit = max(size, BANK)
        at_once = BANKS * BANK // unit
        units, active = _rows(addresses // unit, at_once), _rows(mask, at_once, fill=False)
        ways = _ways(units, active, at_once)
        bytes_ = _distinct(units, active) * unit
        site.ways = max(site.ways, int(ways.max(initial=0)))
        site.accesses += float(_rows(mask, SUBGROUPS[0], fill=False).any(axis=1).sum()) * weight
        site.cycles += float(ways.sum()) * weight
        site.slow_cycles += float(np.maximum(ways, -(-bytes_ // 64)).sum()) * weight


def _rows(values: Array, lanes: int, fill: int = 0) -> Array:
    """The lanes of a workgroup in rows of those that go together."""
    short = -len(values) % lanes
    return np.pad(values, (0, short), constant_values=fill).reshape(-1, lanes)


def _distinct(values: Array, active: Array) -> Array:
    """How many different values each row has in its active lanes."""
    ordered = np.sort(np.where(active, values.astype(np.int64), -1), axis=1)
    new = np.concatenate([ordered[:, :1] >= 0, ordered[:, 1:] != ordered[:, :-1]], axis=1)
    counted: Array = new.sum(axis=1)
    return counted


def _ways(units: Array, active: Array, banks: int) -> Array:
    """How many different units of each row are in its busiest bank."""
    ordered = np.sort(np.where(active, units.astype(np.int64), -1), axis=1)
    new = np.concatenate([ordered[:, :1] >= 0, ordered[:, 1:] != ordered[:, :-1]], axis=1)
    rows = np.broadcast_to(np.arange(len(units)).reshape(-1, 1), ordered.shape)
    named = (rows * banks + ordered % banks)[new]
    counts = np.bincount(named, minlength=len(units) * banks).reshape(len(units), banks)
    most: Array = counts.max(axis=1)
    return most
