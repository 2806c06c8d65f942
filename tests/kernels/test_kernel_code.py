"""Kernels have comments in their files only: pages embed the code, and digests cover the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import line_bundle
from adapters import ROOT
from hostile_bundles import as_web
from web_stacks import run_node
from wgcc.bundle.javascript import kernel_codes
from wgcc.compiler import compile_file
from wgcc_runtime import WgccError
from wgcc_runtime.bundle_files import code_digest, code_of, open_bundle, read_kernel
from wgcc_runtime.plan import Plan, read_plan


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return compile_file(ROOT / "tests" / "golden" / "tokens.wg").files()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("// a\n//b\nx;\n", "x;\n"),
        ("x;\n  // a\n\t//\ny; // kept\n\n", "x;\ny; // kept\n\n"),
        ("x;\n// the last line", "x;\n// the last line"),
        # What follows another line break of WGSL is code.
        ("// a\u2028x;\n// b\rx;\n", "// a\u2028x;\n// b\rx;\n"),
    ],
)
def test_what_is_a_comment(text: str, code: str) -> None:
    assert code_of(text) == code
    assert code_digest(text) == code_digest(code)


def test_pages_embed_the_code_alone(files: dict[str, bytes]) -> None:
    codes = kernel_codes(files)
    assert len(codes) > 20
    for name, code in codes.items():
        file = files[name if name in files else f"kernels/{name}"].decode()
        assert file.startswith("// ") and "\n// " in file, "readers find comments in the file"
        assert "//" not in code
        assert [line for line in file.splitlines() if "//" not in line] == code.splitlines()
    assert "//" not in files["kernels.js"].decode().partition("export")[2]
    page = files["index.html"].decode()
    assert all(code.strip() in page for code in codes.values())
    assert "workgroups of" not in page


def commented(folder: Path, comment: str) -> Path:
    bundle = line_bundle.write_bundle(folder)
    path = bundle / "kernels" / "predict.wgsl"
    path.write_text(path.read_text().replace("@compute", f"{comment}@compute"))
    return bundle


def plan_of(bundle: Path) -> Plan:
    return read_plan((bundle / "plan.json").read_bytes())


def test_comments_may_change_and_code_may_not(tmp_path: Path) -> None:
    """In both runtimes."""
    other = commented(tmp_path / "comment", "// what it does\n")
    changed = commented(tmp_path / "code", "const X = 1u; // what it does\n")
    assert "what it does" in read_kernel(open_bundle(other), plan_of(other).kernels[0])
    with pytest.raises(WgccError, match=r"predict\.wgsl was changed") as caught:
        read_kernel(open_bundle(changed), plan_of(changed).kernels[0])
    assert caught.value.code == "bundle"
    answers = run_node("hostile.mjs", data=[as_web(bundle) for bundle in (other, changed)])
    assert answers == ["the GPU was asked for", "bundle"]
