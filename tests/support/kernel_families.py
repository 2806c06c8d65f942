"""Which kernel family a launch is of: the one place where tests know how pages are named."""

from __future__ import annotations

from wgcc.schedule.kernel import Launch


def family(launch: Launch) -> str:
    """`matmul_tiles`, `rows`, `attention_grad_q`, …"""
    return launch.kernel.page


def is_product(launch: Launch) -> bool:
    """Whether it is a matrix product, with whatever is done to its results."""
    return family(launch).startswith("matmul")
