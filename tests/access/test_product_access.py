"""What matrix products do to real GPUs, by the access model: loads, tiles and workgroups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters import ROOT
from kernel_families import is_product
from wgcc.access.model import Access, access_of
from wgcc.compiler import compile_file
from wgcc.schedule.kernels.context import tree_of

BENCH = ROOT / "tests" / "bench" / "models"
MODELS = (
    *(f"tests/bench/models/{name}.wg" for name in "abc"),
    *(f"examples/{name}/model.wg" for name in ("chargpt", "cnn", "mamba", "lora")),
)
# Layers of equal sizes share their kernels, so two of them show what twelve do.
GPT = {"B": 4, "T": 512, "V": 8192, "D": 768, "H": 12, "L": 2}
SQUARE = """
model Square {
  l1: Linear[1024, 1024](bias = false)
  l2: Linear[1024, 1024](bias = false)
  optimizer opt: sgd { lr = 0.1 }

  entry train(x: f32[1024, 1024], t: f32[1024, 1024]) -> (loss: f32) {
    loss = mse(x |> l1 |> relu |> l2, t)
    minimize loss with opt
    return loss
  }
}
"""
LARGE, ENOUGH_WORKGROUPS = 1 << 20, 64
MOST_SECTORS, LEAST_USEFUL = 1.3, 0.85
# From so many operations on, a product reads whole sectors, but for the edges of its rows.
VERY_LARGE, MOST_OF_VERY_LARGE = 10 << 20, 1.05
# A single one below: rows of 65 or 52 elements begin inside of sectors; ids decide which rows of a
# table are added to a product; tiles of few rows and columns, for a long inner axis, read short
# pieces. All large ones of a model together touch few more than they need.
MOST_OF_LARGE, MOST_OF_ALL_LARGE = 2.1, 1.2


def products(path: Path, sizes: dict[str, int] | None = None) -> Iterator[Access]:
    """The model of each product of a training step; equal dispatches come once."""
    known = set()
    for dispatch in compile_file(path, sizes=sizes or {}).schedule.entries["train"].dispatches:
        launch = dispatch.launches["gpu"]
        if is_product(launch) and launch not in known:
            known.add(launch)
            bound = [region.bytes for region in dispatch.regions]
            yield access_of(tree_of(launch.kernel), launch.grid, dispatch.flops, bound)


def check(found: list[Access]) -> None:
    """Sectors and padding of all together, since small products have their own edges."""
    sites = [site for access in found for site in access.sites]
    assert sum(s.sectors for s in sites) <= MOST_SECTORS * sum(s.ideal for s in sites)
    made = 64 * sum(access.counts.fma for access in found)
    assert sum(access.flops for access in found) >= LEAST_USEFUL * made
    for access in found:
        assert access.bank_conflicts <= 2
        assert access.live <= 160
        assert access.flops <= LARGE or access.workgroups >= ENOUGH_WORKGROUPS
        assert access.flops <= LARGE or (access.useful or 1) >= LEAST_USEFUL


@pytest.mark.parametrize("model", MODELS)
def test_products_of_models(model: str) -> None:
    found = list(products(ROOT / model))
    check(found)
    large = [access for access in found if access.flops > LARGE]
    for access in large:
        is_very_large = access.flops > VERY_LARGE
        assert access.sector_ratio <= (MOST_OF_VERY_LARGE if is_very_large else MOST_OF_LARGE)
    least = sum(site.ideal for access in large for site in access.sites)
    assert large and sum(access.sectors for access in large) <= MOST_OF_ALL_LARGE * least


def test_products_of_a_large_gpt() -> None:
    found = list(products(BENCH / "c.wg", GPT))
    check(found)
    assert all(access.sector_ratio <= MOST_SECTORS for access in found)
    assert all(access.peak_share["RTX 4070"] > 0.55 for access in found)
    assert all(access.peak_share["Apple M2"] > 0.5 for access in found)


def test_large_square_products(tmp_path: Path) -> None:
    """Forward, gradient of the input and gradient of the weight: plain and both transposed."""
    path = tmp_path / "square.wg"
    path.write_text(SQUARE)
    found = list(products(path))
    assert len(found) >= 4
    check(found)
    for access in found:
        assert all(site.sectors == site.ideal and site.size == 16 for site in access.sites)
        assert access.peak_share["RTX 4070"] >= 0.6 and access.peak_share["Apple M2"] >= 0.5
