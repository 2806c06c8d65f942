"""What a call was refused with, for tests that look at the whole message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wgcc_runtime import WgccError


def refusal(action: Callable[[], Any]) -> WgccError:
    """The error of an action that must be refused."""
    with pytest.raises(WgccError) as caught:
        action()
    return caught.value
