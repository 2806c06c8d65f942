"""The workbench in Chromium, by WebGPU and as WebAssembly, from one site and one visit."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from web_stacks import run_node, tool
from wgcc.cli.commands.verify.stacks import _program
from wgcc.workbench.address import address_of
from wgcc.workbench.folder import write_site
from wgcc.workbench.npm_parts import npm_folder
from wgcc.workbench.site import example_programs
from wgcc.workbench.wire import Workbench

# Bytes to the first compile, with the editor; what is loaded later is not counted.
MOST_BYTES = 6_500_000
LATER = ("pages.zip", "naga", "run.html", "wgcc/", "wgcc.js", "offline.js")


LAYERS = """\
layer Double[D] {
  lin: Linear[D, D]
  fn forward[N](x: f32[N, D]) -> f32[N, D] = wiggle(lin(x)) * 2
}
fn wiggle(x: f32[..]) -> f32[..] = wgsl("wiggle.wgsl") grad g { return g * (1.0 + cos(x)) }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workbench") / "site"
    write_site(folder)
    return folder


@pytest.fixture(scope="module")
def seen(site: Path) -> Any:
    text = (ROOT / "examples" / "sin" / "model.wg").read_text(encoding="utf-8")
    files = {
        "model.wg": f'import Double from "layers.wg"\n{text.replace("Linear[H, H]", "Double[H]")}',
        "layers.wg": LAYERS,
        "wiggle.wgsl": "fn wiggle(x: f32) -> f32 { return x + sin(x); }\n",
    }
    return run_node("workbench.mjs", str(site), json.dumps(files))


def test_a_mistake_has_its_caret_and_is_fixed_by_a_click(seen: Any) -> None:
    assert seen["first"] == "loading"
    lines = seen["problem"].splitlines()
    caret = next(at for at, line in enumerate(lines) if line.strip() == "^^^^")
    assert lines[caret - 1][lines[caret].index("^") :].startswith("tahn")
    assert "monospace" in seen["caretFont"]
    assert not seen["canTrain"]
    assert "tahn" not in seen["fixed"] and "f32[N, H]" in seen["fixed"]


@pytest.mark.parametrize(("run", "kind"), [("webgpu", ""), ("twin", "wasm")])
def test_it_trains_to_a_falling_loss(seen: Any, run: str, kind: str) -> None:
    losses = seen[run]["losses"]
    assert seen[run]["state"] in ("training", "ready")
    assert (seen[run]["kind"] == "wasm") == (kind == "wasm")
    assert min(losses[-3:]) < losses[0] / 4
    # WebAssembly is only written where the model runs as that.
    assert (seen[run]["twin"] > 0) == (kind == "wasm")


def test_the_call_that_is_typed_has_its_signature(seen: Any) -> None:
    assert seen["signature"].startswith("softmax(x, axis=-1)")


def test_axe_finds_nothing_in_either_colour_scheme(seen: Any) -> None:
    assert seen["axe"] == []


def test_values_inside_are_drawn_while_it_trains(seen: Any) -> None:
    assert any(name.startswith("l1 f32[256, 64]") for name in seen["names"])
    cards = {card["name"]: card for card in seen["inside"]}
    assert set(cards) == {"l1", "d.l1.w", "d.l1.b"}
    assert all(card["columns"] >= 1 for card in cards.values())
    assert cards["l1"]["maps"] == 1 and "none of 64 units is dead" in cards["l1"]["facts"]
    # Gradients are statistics, which a kernel computed.
    assert cards["d.l1.w"]["maps"] == 0 and "[1, 64]" in cards["d.l1.w"]["facts"]


def test_pictures_have_a_map_for_each_channel_and_attention_one_for_each_head() -> None:
    values = run_node("workbench_values.mjs")
    conv = values["conv.y"]
    assert [len(pixels) for pixels in conv["maps"]] == [16, 16, 16]
    # The second row of the batch; channel 1 is dead.
    assert conv["maps"][0][:3] == [49, 52, 55] and set(conv["maps"][1]) == {0}
    assert (values["attn.weights"]["height"], len(values["attn.weights"]["maps"])) == (3, 3)
    assert (values["attn.y"]["width"], len(values["attn.y"]["maps"])) == (5, 3)
    assert {name: value["dead"] for name, value in values.items()} == {key: [1] for key in values}


def test_a_step_lights_up_its_lines_and_is_undone(seen: Any) -> None:
    stepping = seen["stepping"]
    assert stepping["stepped"] == stepping["paused"] + 1
    last = next(text for text in reversed(stepping["lit"]) if "adam_update" in text)
    assert "minimize loss with opt" in last


def test_sizes_are_chosen_without_an_edit_and_shared(seen: Any) -> None:
    shared = json.loads(seen["shared"])
    assert shared["sizes"] == {"H": 48} and "H = 64" in shared["files"]["model.wg"]
    assert seen["twin"]["hidden"] == [48]


def test_data_and_its_settings_outlive_an_edit(seen: Any) -> None:
    assert seen["data"]["rows"].startswith("line.csv: 480 rows")
    assert seen["data"]["steps"] == "150"
    assert "steps=150" in seen["data"]["shared"] and "data=own" in seen["data"]["shared"]


def test_a_bundle_that_was_taken_away_opens_again(seen: Any) -> None:
    assert set(seen["opened"]) == {"model.wg", "layers.wg", "wiggle.wgsl"}
    assert seen["opened"] == seen["taken"]


def test_several_files_with_an_own_kernel_are_renamed_in_and_trained(seen: Any) -> None:
    assert "import Twice from" in seen["taken"]["model.wg"]
    assert "layer Twice" in seen["taken"]["layers.wg"]
    assert min(seen["imported"]["losses"][-3:]) < seen["imported"]["losses"][0]


def test_a_model_that_is_too_deep_ends_one_compiler_only(seen: Any) -> None:
    assert "modle" in seen["alive"]


def test_a_kernel_leads_to_its_line_and_back(seen: Any) -> None:
    assert seen["kernel"] == "adam_update"
    assert "minimize loss with opt" in seen["line"] and "minimize" in seen["back"]
    # The loss and the layers before it are fused into one.
    assert any({"10", "15"} <= set(lines) for lines in seen["kernelLines"])
    assert {"registers", "sectors", "banks", "Apple M2"} <= set(seen["figures"])


def test_a_kernel_is_shown_as_other_systems_have_it(seen: Any) -> None:
    languages = seen["languages"]
    assert "#include <metal_stdlib>" in languages["msl"]
    assert "RWByteAddressBuffer" in languages["hlsl"]
    # Each instruction has its name, and the module ends with its last function.
    assert not re.search(r"\bOp\d", languages["spirv"])
    assert languages["spirv"].rstrip().endswith("OpFunctionEnd")


def test_tabs_show_what_was_compiled(seen: Any) -> None:
    assert all(length > 100 for length in seen["tabs"].values())


def test_a_shared_address_fills_a_fresh_profile(seen: Any) -> None:
    assert json.loads(seen["shared"]) == json.loads(seen["kept"])
    assert json.loads(seen["shared"])["capture"] == ["l1", "d.l1.*"]


def test_it_works_without_a_network_and_contacts_no_host(seen: Any) -> None:
    assert seen["offline"]["state"] == "ready"
    assert seen["hosts"] == []
    assert seen["problems"] == []
    assert not seen["inline"], "the policy forbids inline scripts"


def test_a_later_visit_starts_from_the_memory_that_the_page_kept(seen: Any) -> None:
    assert seen["offline"]["isKept"]


def test_in_firefox_under_a_strict_policy_an_address_runs_nothing(site: Path) -> None:
    seen = run_node("workbench_firefox.mjs", str(site), _program("firefox"))
    assert "tahn" in seen["problem"] and not seen["before"]
    assert seen["state"] in ("training", "ready")
    assert min(seen["losses"][-3:]) < seen["losses"][0]
    assert not seen["wasRun"] and seen["refused"] == []


def test_an_address_can_only_fill_the_editor() -> None:
    files = {"model.wg": 'fn f(x: f32) -> f32 = x\n// grüße "\N{GRINNING FACE}"\n', "b.wg": ""}
    read = run_node("workbench_address.mjs", address_of(files, "b.wg"))
    assert read["fromPython"]["files"] == files and read["fromPython"]["main"] == "b.wg"
    assert read["own"]["main"] == "other.wg" and read["own"]["tab"] == "Kernels"
    assert read["own"]["files"]["model.wg"].startswith("// grüße \N{GRINNING FACE}")
    assert read["own"]["run"] == "seed=7&steps=30&data=own"
    assert "too long" in read["tooLong"]
    assert set(read["hostile"]) == {None}


def test_bytes_to_the_first_compile(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.is_file()]
    names = {path.relative_to(site).as_posix(): path for path in files}
    first = {n: len(gzip.compress(p.read_bytes(), 9)) for n, p in names.items()
             if not n.startswith(LATER)}  # fmt: skip
    assert sum(first.values()) <= MOST_BYTES, sorted(first.items(), key=lambda item: -item[1])


def test_pyodide_builds_every_example_to_the_same_bytes(site: Path, tmp_path: Path) -> None:
    """Here with numpy, there without: all that a runtime needs is equal."""
    bench, examples = Workbench(str(tmp_path)), example_programs()
    made = run_node("workbench_pyodide.mjs", str(site), str(npm_folder()), data=examples)
    assert len(made) == len(examples) > 15
    for example in examples:
        program = {"files": example["files"], "main": example["main"]}
        files = bench.ask("build", program)["files"]
        assert made[example["name"]] == {
            name: hashlib.sha256(content).hexdigest() for name, content in files.items()
        }


def test_types_of_the_page(tmp_path: Path) -> None:
    modules = npm_folder()
    options = {
        "strict": True, "checkJs": True, "allowJs": True, "noEmit": True, "target": "es2023",
        "module": "esnext", "moduleResolution": "bundler", "types": [], "resolveJsonModule": True,
        "skipLibCheck": True, "paths": {"*": [f"{modules}/*"]},
        "lib": ["es2024", "esnext.disposable", "dom", "dom.iterable", "dom.asynciterable"],
    }  # fmt: skip
    folder = ROOT / "runtime_js"
    files = [*(folder / "workbench").glob("*.js"), folder / "page" / "places.d.ts"]
    config = tmp_path / "tsconfig.json"
    config.write_text(json.dumps({"compilerOptions": options, "files": list(map(str, files))}))
    done = tool("tsc", "--project", str(config))
    assert done.returncode == 0, done.stdout
