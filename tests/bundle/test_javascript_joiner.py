"""The joiner: modules become one file per folder, in one scope; errors name the module."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from wgcc.bundle import page as pages
from wgcc.bundle.javascript import strip_javascript
from wgcc.bundle.modules import JoinError, join_modules
from wgcc.bundle.page import FILES, page_files, readable_files, runtime_modules
from wgcc.files import data_dir

CORE = """// The whole.

export { double } from './numbers.js';
export { later } from './later.js';
"""
NUMBERS = """// Numbers.

import { factor } from './factor.js';

/** @import { Factor } from './factor.js' */

/** @param {Factor} x */
export function double(x) {
  return factor * x;
}
"""
FACTOR = """// The factor.

/** @typedef {number} Factor */

export const factor = 2;
const hidden = 3;
export class Box {}
"""
LATER = """// Loads a part.

export const later = async () => (await import('../part/part.js')).answer(21);
"""
PART = """// A part.

import settings from '../settings.json' with { type: 'json' };
import { double } from '../core/numbers.js';

/**
 * @import {
 *   Box,
 * } from '../core/factor.js'
 */

export const answer = (/** @type {number} */ x) => [double(x), settings.name];
"""
MODULES = {
    "core/core.js": CORE,
    "core/numbers.js": NUMBERS,
    "core/factor.js": FACTOR,
    "core/later.js": LATER,
    "part/part.js": PART,
}
TWO_FILES = {"all.js": "core/core.js", "parts/part.js": "part/part.js"}
SETTINGS = json.dumps({"title": "for readers", "name": "two", "list": list(range(60))})


def join(**changes: str) -> dict[str, str]:
    """The modules above, joined; `factor=…` replaces core/factor.js."""
    changed = {f"core/{name}.js": text for name, text in changes.items()}
    return join_modules({**MODULES, **changed}, TWO_FILES, {"settings.json": SETTINGS})


def test_each_module_follows_what_it_imports() -> None:
    text = join()["all.js"]
    places = [text.index(f"// ---- core/{name}.js") for name in ("factor", "numbers", "later")]
    assert places == sorted(places)
    assert text.startswith("// The whole.\n// Joined by `wgcc build`")
    assert "\nimport" not in text and "from './factor.js'" not in text
    assert text.count("export") == 1
    assert text.endswith("\nexport { Box, double, later };\n")


def test_other_files_are_imported_from_where_they_are() -> None:
    files = join()
    assert "import('./parts/part.js')" in files["all.js"]
    part = files["parts/part.js"]
    assert "import { double } from '../all.js';\n/** @import { Box } from '../all.js' */\n" in part
    assert part.endswith("\nexport { answer };\n")


def test_json_becomes_a_constant_without_its_prose() -> None:
    part = join()["parts/part.js"]
    assert 'const settings = {\n  name: "two",\n  list: [\n' in part
    assert "for readers" not in part


def test_joined_files_run(tmp_path: Path) -> None:
    for name, text in {**join(), "package.json": '{"type": "module"}'}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    script = "import { double, later } from './all.js'; console.log(double(4), await later());"
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "8 [ 42, 'two' ]\n", done.stderr


NASTY = """// What looks like imports and exports, and is none.

import { factor } from './factor.js'; // import { hidden } from './none.js';

/* export const gone = 1; */
export const later = async x => {
  const text = 'import { a } from "./b.js";' + `export { ${ `}${factor}` }


import('../none/none.js')`;
  if (x) /export const [}/'`]/.test(text);
  const { meta } = { meta: import('../part/part.js') };
  return [text.length, text.split('\\n').length, (await meta).answer(1)];
};
"""


def test_only_code_is_joined(tmp_path: Path) -> None:
    """Imports in strings, templates, regular expressions and comments stay as they are."""
    text = join(later=NASTY)["all.js"]
    assert "import { hidden } from './none.js';" in text and "import('../none/none.js')`" in text
    assert "{ meta: import('./parts/part.js') }" in text
    for name, code in {**join(later=NASTY), "package.json": '{"type": "module"}'}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code, encoding="utf-8")
    stripped = strip_javascript(text)
    (tmp_path / "stripped.js").write_text(stripped, encoding="utf-8")
    script = (
        "import * as all from './all.js'; import * as stripped from './stripped.js';"
        "for (const { later } of [all, stripped]) console.log(await later(true));"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "[ 66, 4, [ 2, 'two' ] ]\n" * 2, done.stderr


def test_joining_twice_gives_the_same() -> None:
    shuffled = dict(reversed(MODULES.items()))
    assert join_modules(shuffled, TWO_FILES, {"settings.json": SETTINGS}) == join()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"factor": "// F.\n\nexport default 2;\n"}, "factor.js: .*export default 2"),
        ({"factor": "// F.\n\nconst { max: m } = Math;\n"}, r"factor.js: .*const \{ max"),
        ({"later": LATER + "const [a, hidden] = '12';\n"}, "hidden is also declared in core/"),
        ({"factor": "// F.\n\nvar factor = 2;\n"}, "factor.js: .*var factor"),
        ({"factor": "// F.\n\nimport './other.js';\n"}, "factor.js: .*import './other.js'"),
        ({"factor": "// F.\n\n/** @import * as x from './other.js' */\n"}, "factor.js: .*@import"),
        ({"factor": "// F.\n\nconst factor = 2;\n"}, "numbers.js: core/factor.js does not export"),
        ({"numbers": NUMBERS.replace("factor }", "factor as f }", 1)}, "numbers.js: .*renames"),
        ({"numbers": NUMBERS.replace("./factor", "./none")}, "numbers.js: .*no module core/none"),
        ({"later": LATER + "const hidden = 1;\n"}, "hidden is also declared in core/"),
        ({"factor": f"// F.\n\nimport {{ double }} from './numbers.js';\n{FACTOR}"}, "each other"),
    ],
)
def test_what_cannot_be_joined_is_named(changes: dict[str, str], complaint: str) -> None:
    with pytest.raises(JoinError, match=complaint):
        join(**changes)


def test_an_imported_name_may_not_mean_something_else() -> None:
    modules = {**MODULES, "part/other.js": "// O.\n\nexport const double = 3;\n"}
    modules["part/part.js"] = PART + "export { double } from './other.js';\n"
    with pytest.raises(JoinError, match="double is also declared"):
        join_modules(modules, TWO_FILES, {"settings.json": SETTINGS})


def test_every_module_of_the_runtime_is_used() -> None:
    shipped = "".join(readable_files().values())
    for path in runtime_modules().keys() - set(FILES.values()):
        assert f"// ---- {path}\n" in shipped, path


def test_files_of_an_earlier_run_are_those_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    page = data_dir("runtime_js") / "page"
    made = page_files.__wrapped__(page, "app.js", False)
    (kept,) = (tmp_path / "wgcc").iterdir()
    monkeypatch.setattr(pages, "join_modules", None)  # the second time, nothing is joined
    assert page_files.__wrapped__(page, "app.js", False) == made
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(TypeError):
        page_files.__wrapped__(page, "app.js", False)
