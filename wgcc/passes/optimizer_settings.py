"""The settings of an optimizer: fixed numbers, numbers computed in each step, and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node
from wgcc.ops.formula import Term
from wgcc.ops.optimizers import OPTIMIZERS


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters (by position) that share all settings. `weight_decay` None means there is none."""

    members: tuple[int, ...]
    lr: Term
    weight_decay: Term | None


class Settings:
    def __init__(self, b: Builder, node: Node) -> None:
        names: tuple[str, ...] = node.attrs["dynamic"]
        self._b = b
        self._node = node
        self.known: Mapping[str, Any] = {
            **OPTIMIZERS[node.attrs["kind"]].defaults,
            **node.attrs["settings"],
        }
        self._dynamic = {
            name: Term(b, value) for name, value in zip(names, node.inputs, strict=False)
        }

    def fixed(self, name: str) -> Any:
        """A setting that is always known at compile time; None if it is not set."""
        assert name not in self._dynamic, f"{name} cannot change from step to step"
        return self.known.get(name)

    def scalar(self, name: str) -> Term | None:
        """A setting that may change from step to step; None if it is not set."""
        if name in self._dynamic:
            return self._dynamic[name]
        number = self.known.get(name)
        return None if number is None else self.number(number)

    def number(self, number: float) -> Term:
        return Term(self._b, self._b.constant(float(number)))

    def groups(self, params: int) -> list[Group]:
        """The parameters by settings, in the order of the first of each; later groups override."""
        own: list[Mapping[str, Any]] = [{}] * params
        for members, settings in self._node.attrs["groups"]:
            for index in members:
                own[index] = settings
        members_of: dict[tuple[tuple[str, float], ...], list[int]] = {}
        for index, settings in enumerate(own):
            members_of.setdefault(tuple(sorted(settings.items())), []).append(index)
        return [self._group(members, dict(key)) for key, members in members_of.items()]

    def _group(self, members: Sequence[int], own: Mapping[str, float]) -> Group:
        lr = self.scalar("lr")
        assert lr is not None
        if own.get("lr_scale", 1.0) != 1.0:
            lr = lr * own["lr_scale"]
        return Group(tuple(members), lr, self._decay(own))

    def _decay(self, own: Mapping[str, float]) -> Term | None:
        if "weight_decay" in self._dynamic and "weight_decay" not in own:
            return self._dynamic["weight_decay"]
        number = own.get("weight_decay", self.known["weight_decay"])
        return self.number(number) if number else None
