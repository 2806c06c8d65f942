"""`model.tokens`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from wgcc_runtime.errors import WgccError

if TYPE_CHECKING:
    from wgcc_runtime.plan import Plan
    from wgcc_runtime.tokens.letters import Letters
    from wgcc_runtime.tokens.tokens import Tokens


class WithTokens(ABC):
    """The text of a model's ids."""

    @property
    @abstractmethod
    def plan(self) -> Plan: ...

    @property
    def tokens(self) -> Tokens | Letters:
        """`encode` and `decode` of the model's `vocab`; its file is read at the first use."""
        from wgcc_runtime.tokens.letters import Letters

        plan = self.plan
        if plan.tokens is not None and plan.tokens.open is not None:
            return plan.tokens.open()
        if not plan.vocab:
            raise WgccError("text", f"{plan.model} has no `vocab`", "vocab")
        return Letters(plan.vocab)
