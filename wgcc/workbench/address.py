"""Addresses that open programs in a workbench, as `runtime_js/workbench/sharing.js` reads them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping

# What deflate calls a stream without a header.
_RAW = -15


def address_of(files: Mapping[str, str], main: str) -> str:
    """The part after the page's own address, `#m=…`: programs by name, and the one that is open."""
    packer = zlib.compressobj(9, zlib.DEFLATED, _RAW)
    content = json.dumps({"files": dict(files), "main": main}, ensure_ascii=False).encode()
    packed = packer.compress(content) + packer.flush()
    return f"#m={base64.urlsafe_b64encode(packed).decode().rstrip('=')}"
