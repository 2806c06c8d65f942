"""What is said where WebGPU is missing is right for the browser at hand."""

from __future__ import annotations

import re
from typing import Any

from web_stacks import run_node

LINUX, MAC, WINDOWS = "X11; Linux x86_64", "Macintosh; Intel Mac OS X 10_15_7", "Windows NT 10.0"
IPHONE = "iPhone; CPU iPhone OS 17_5 like Mac OS X"
WEBKIT = "AppleWebKit/605.1.15 (KHTML, like Gecko)"


def firefox(system: str, version: int) -> str:
    return f"Mozilla/5.0 ({system}; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"


def chrome(system: str, version: int) -> str:
    engine = "AppleWebKit/537.36 (KHTML, like Gecko)"
    return f"Mozilla/5.0 ({system}) {engine} Chrome/{version}.0.0.0 Safari/537.36"


def apple(system: str, rest: str) -> str:
    return f"Mozilla/5.0 ({system}) {WEBKIT} {rest}"


# Who, words about missing WebGPU, words about a missing adapter.
BROWSERS = [
    (firefox(LINUX, 145), "Firefox on Linux .* Nightly.* dom.webgpu.enabled", "about:support"),
    (firefox(WINDOWS, 128), "from version 141 on Windows; this is 128", "about:support"),
    (firefox(MAC, 140), "version 145 on Macs with Apple silicon; this is 140", "about:support"),
    (firefox("Android 14; Mobile", 145), "on Android, WebGPU is in Chrome 121", "about:support"),
    (chrome(LINUX, 140), "in Chrome on Linux, .*#enable-unsafe-webgpu", "#enable-vulkan.*chrome://gpu"),
    (chrome(WINDOWS, 109), "from version 113; this is 109: update", "acceleration .*chrome://gpu"),
    (chrome(WINDOWS, 140), "turn on graphics acceleration", "acceleration .*chrome://gpu"),
    (chrome("Linux; Android 13; Pixel 7", 110), "Chrome 121 or newer, on Android 12", "driver"),
    (chrome("Linux; Android 13; Pixel 7; wv", 140), "inside an app.* Chrome 121", "driver"),
    (apple(MAC, "Version/17.5 Safari/605.1.15"), "26, on macOS 26 .*this is 17", "lock"),
    (apple(IPHONE, "Version/17.5 Mobile/15E148 Safari/604.1"), "iOS or iPadOS 26 .*update", "lock"),
    (apple(IPHONE, "CriOS/125.0 Mobile/15E148 Safari/604.1"), "iOS or iPadOS 26 .*update", "lock"),
    (apple(IPHONE, "Mobile/15E148"), "inside an app .*in Safari, on iOS", "lock"),
    (apple(IPHONE, "Mobile/15E148 Instagram 300.0"), "inside an app .*in Safari, on iOS", "lock"),
    ("something else", "current Chrome, Edge, Safari or Firefox", "update"),
]  # fmt: skip
NODE = {"process": {"versions": {"node": "22.0.0"}}}
PROGRAMS: list[tuple[dict[str, Any], str, str]] = [
    (NODE, r"npm install webgpu.*create\(\[\]\)", "Vulkan driver"),
    ({**NODE, "Deno": {}}, "update Deno", "Vulkan driver"),
    ({"navigator": {"userAgent": chrome(LINUX, 140)}, "isSecureContext": False},
     "only to pages from https, from localhost or from a file, and this page came by http", "gpu"),
]  # fmt: skip


def test_every_browser_gets_its_own_advice() -> None:
    browsers = [({"navigator": {"userAgent": agent}}, *words) for agent, *words in BROWSERS]
    cases = [*PROGRAMS, *browsers]
    seen = run_node("browsers.mjs", data=[scope for scope, *_ in cases])
    for (scope, missing, adapter), found in zip(cases, seen["advice"], strict=True):
        assert re.search(missing, found[0]), (scope, found)
        assert re.search(adapter, found[1]), (scope, found)
        assert not found[0].endswith("."), found


def test_no_dead_ends() -> None:
    """In Node, from where this is asked: the code, the advice, and the way without WebGPU."""
    twin, bare, adapter = run_node("browsers.mjs", data=[])["here"]
    assert (twin["code"], bare["code"], adapter["code"]) == (
        "no-webgpu", "no-adapter", "no-adapter",
    )  # fmt: skip
    assert "npm install webgpu" in twin["message"]
    assert twin["message"].endswith("Or: load({device: 'wasm'}) needs no WebGPU")
    assert bare["message"].endswith("Or: a bundle built without --no-twin needs no WebGPU")
