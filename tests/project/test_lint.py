"""`python3 dev.py lint` finds what breaks a rule: each check is given a tree that does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from lint import words
from lint.checks import CHECKS
from lint.javascript_functions import functions
from lint.named_files import NAMED, PLACEHOLDER, endings, exists
from lint.tree import Tree, tracked_files

from adapters import ROOT

# For modules that shall break one rule only.
DOC = '"""Says what it owns."""\n'
LONG_FUNCTION = "def long():\n" + 50 * "    pass\n"
LONG_ARROW = "const long = () => {\n" + 50 * "  step();\n" + "};\n"

# Check -> files of a tree that breaks its rule, and the complaints about them.
BROKEN: dict[str, list[tuple[dict[str, str], tuple[str, ...]]]] = {
    "architecture.imports_point_down": [
        (
            {"wgcc/ir/graph.py": "import wgcc.cli.group\nfrom wgcc.passes import x\n"},
            ("wgcc/ir/graph.py:1: ir must not", "wgcc/ir/graph.py:2: ir must not"),
        ),
        ({"wgcc/errors.py": "import wgcc.files\n"}, ("wgcc/errors.py:1: errors must not",)),
        ({"wgcc/ir/graph.py": "import wgcc.new_part\n"}, ("ir must not import wgcc.new_part",)),
        ({"wgcc/ir/graph.py": "from . import ports\n"}, ("relative import",)),
        ({"wgcc/new_part.py": ""}, ("new_part has no place",)),
    ],
    "architecture.few_modules_name_a_back_end": [
        (
            {"wgcc/bundle/emit.py": "from wgcc.backends.wasm.twin import write_twin\n"},
            ("wgcc/bundle/emit.py:1: only",),
        ),
    ],
    "architecture.imports_point_down_inside_parts": [
        (
            {"wgcc/elaborate/tracing/dims.py": "\nimport wgcc.elaborate.program.entries\n"},
            ("wgcc/elaborate/tracing/dims.py:2: tracing must not import",),
        ),
        ({"wgcc/schedule/new.py": ""}, ("wgcc/schedule/new.py:1: new has no place",)),
        (
            {"wgcc/backends/wasm/encoding/bytes.py": "import wgcc.backends.wasm.twin\n"},
            ("encoding must not import wgcc.backends.wasm.twin",),
        ),
    ],
    "architecture.no_list_of_ops_outside_the_ops": [
        (
            {"wgcc/passes/fold.py": "\nKNOWN = {'add', 'mul', 'sub', 'exp', 'tanh'}\n"},
            ("wgcc/passes/fold.py:2: a list of ops: add, exp, mul, sub, tanh",),
        )
    ],
    "scheduled_ops.the_scheduler_names_few_ops": [
        (
            {
                "ARCHITECTURE.md": "it\nmakes, pairs or places itself: `const`, `copy`, `sum`.\n",
                "wgcc/schedule/fuse/merge.py": """VIEWS = ("reshape", "const")
if node.op in VIEWS or "tanh" != node.op or node.op == "const":
    builder.apply("copy", value)
    Node("exp", (value,))
""",
                "wgcc/schedule/kernels/scan.py": "node.op == 'scan'\nnode.op == 'slice'\n",
            },
            (
                "merge.py:2: knows the op reshape",
                "merge.py:2: knows the op tanh",
                "merge.py:4: knows the op exp",
                "scan.py:2: knows the op slice",
                "ARCHITECTURE.md:1: invariant 5 lists the op sum",
            ),
        ),
        ({"ARCHITECTURE.md": "5. …\n"}, ("invariant 5 lists no ops",)),
    ],
    "architecture.third_party_packages_are_imported_in_one_place": [
        (
            {"wgcc/ir/graph.py": "import numpy as np\nimport wgpu\n"},
            ("wgcc/ir/graph.py:1: imports numpy", "wgcc/ir/graph.py:2: imports wgpu"),
        ),
        (
            {
                "wgcc/syntax/parse.py": "import lark\n",
                "wgcc/syntax/tree.py": "from lark import x\n",
            },
            ("wgcc/syntax/tree.py:1: imports lark, as wgcc/syntax/parse.py does",),
        ),
    ],
    "architecture.runtime_stands_alone": [
        (
            {"runtime_py/wgcc_runtime/model.py": "import os\nfrom wgcc.ir import graph\n"},
            ("runtime_py/wgcc_runtime/model.py:2: the runtime imports wgcc.ir",),
        )
    ],
    "architecture.sizes": [
        ({"tests/web/big.py": DOC + 400 * "\n"}, ("tests/web/big.py:401: the file has 401 lines",)),
        ({"dev.py": DOC + LONG_FUNCTION}, ("dev.py:2: long has 51 lines",)),
    ],
    "architecture.modules_say_what_they_own": [
        ({"wgcc/ir/graph.py": "x = 1\n"}, ("wgcc/ir/graph.py:1: no docstring",)),
        ({"wgcc/ir/graph_utils.py": DOC}, ("'utils' says nothing",)),
    ],
    "architecture.every_function_is_used": [
        (
            {"wgcc/ir/graph.py": "def used(): ...\n\ndef unused(): used()\n"},
            ("wgcc/ir/graph.py:3: unused is never used",),
        )
    ],
    "javascript.sizes": [
        ({"runtime_js/core/a.js": "//\n" + LONG_ARROW}, ("runtime_js/core/a.js:2: const long",)),
        ({"tests/web/a.mjs": 401 * "//\n"}, ("the file has 401 lines",)),
    ],
    "javascript.modules_say_what_they_own": [
        ({"runtime_js/core/a.js": "x();\n"}, ("runtime_js/core/a.js:1: no comment",)),
        ({"runtime_js/core/helpers.js": "//\n"}, ("'helpers' says nothing",)),
    ],
    "javascript.written_for_readers": [
        (
            {"runtime_js/core/a.js": "//\nconst { keys } = Object;\nf(dtype[0]);\n"},
            ("a.js:2: gives a built-in another name", "a.js:3: guesses at a word of the plan"),
        )
    ],
    "javascript.all_is_linted": [
        (
            {
                ".biome.json": '{"files": {"includes": ["runtime_js/**/*.js", "tests/web/*.mjs"]}}',
                "runtime_js/core/a.js": "",
                "tests/web/deep/a.mjs": "",
            },
            ("tests/web/deep/a.mjs:1: no glob",),
        )
    ],
    "javascript.imports_point_down": [
        (
            {"runtime_js/core/a.js": "//\nimport { x } from '../check/b.js';\n"},
            ("runtime_js/core/a.js:2: must not import check",),
        ),
        (
            {"runtime_js/fit/a.js": "await import('../core/b.js');\n"},
            ("a.js:1: loads ../core/b.js",),
        ),
        ({"runtime_js/new/a.js": ""}, ("runtime_js/new/a.js:1: new has no place",)),
    ],
    "named_files.files_that_are_named_exist": [
        (
            {
                "wgcc/ir/graph.py": '"""One.\n\nSee gone.py."""\nx = 1  # or wgcc/ir/lost.py\n',
                "README.md": "```\nfree.py\n```\n[page](wgcc/GONE_TOO.md) and `ir/graph.py`\n",
                "runtime_js/core/a.js": "//\n// as away.js says\n",
            },
            (
                "wgcc/ir/graph.py:3: no file gone.py",
                "wgcc/ir/graph.py:4: no file wgcc/ir/lost.py",
                "README.md:4: no file wgcc/GONE_TOO.md",
                "runtime_js/core/a.js:2: no file away.js",
            ),
        )
    ],
    "repository.added_state_has_one_place": [
        (
            {"wgcc/passes/new.py": "\nname = 'opt/moment'\n", "wgcc/ir/places.py": ""},
            ("wgcc/passes/new.py:2: names of", "wgcc/ir/places.py:1: STATE_NAMES lists it"),
        )
    ],
    "repository.nothing_of_one_machine": [
        (
            {"README.md": "\nin /" + "home/ann, from npm" + "js.org\n"},
            ("README.md:2: a fact of one machine: /" + "home/a", "machine: npm" + "js.org"),
        )
    ],
    "repository.only_known_names_at_the_top": [
        ({"notes/todo.md": "", "README.md": ""}, ("notes/todo.md:1: unknown name",))
    ],
    "suite.names_differ_by_more_than_a_letter": [
        ({"tests/a/test_join.py": "", "tests/b/test_joins.py": ""}, ("test_joins.py:1: its name",)),
        ({"tests/a/test_form.py": "", "tests/b/test_fork.py": ""}, ("its name is nearly that",)),
    ],
    "suite.shared_code_is_in_support": [
        (
            {"tests/a/test_one.py": "", "tests/b/test_other.py": "\nfrom test_one import x\n"},
            ("tests/b/test_other.py:2: test_one is in tests/a",),
        )
    ],
    "words.element_types_are_asked_of_the_table": [
        (
            {f"wgcc/ops/op_{k}.py": "x = 'f16'\n" for k in range(words.MOST_NAMED_DTYPES + 1)},
            ("files name i8, u8 or f16",),
        )
    ],
    "words.variables_say_what_they_are": [
        (
            {"wgcc/ops/add.py": (words.MOST_FOUND + 1) * "found = 1\n"},
            ("variables are called `found`",),
        )
    ],
    "words.functions_are_verbs_or_nouns": [
        (
            {
                "wgcc/ops/add.py": "def _placed(): ...\n"
                "class Node:\n    @property\n    def is_shared(self): ...\n"
                "    @property\n    def stored(self): ...\n"
            },
            ("add.py:1: function _placed is a participle",),
        )
    ],
    "words.docstrings_are_sentences": [
        (
            {"wgcc/ops/add.py": (words.MOST_FRAGMENTS + 1) * 'def f():\n    """Of a copy."""\n'},
            ("docstrings open with",),
        )
    ],
    "words.class_names_mean_one_thing": [
        (
            dict.fromkeys(
                ("wgcc/ops/add.py", "wgcc/ir/graph.py", "wgcc/syntax/ast.py"), "class Node: ...\n"
            ),
            ("class Node stands in several files: wgcc/ir/graph.py, wgcc/ops/add.py;",),
        )
    ],
}
NAMES = {f"{check.__module__.removeprefix('lint.')}.{check.__name__}": check for check in CHECKS}


def write(folder: Path, files: Mapping[str, str]) -> Tree:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return Tree(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_rule_is_reported(name: str, tmp_path: Path) -> None:
    for number, (files, complaints) in enumerate(BROKEN[name]):
        problems = [str(problem) for problem in NAMES[name](write(tmp_path / str(number), files))]
        assert len(problems) == len(complaints), problems
        for complaint in complaints:
            assert any(complaint in problem for problem in problems), (complaint, problems)


def test_the_command_prints_all_problems_and_fails(tmp_path: Path) -> None:
    write(tmp_path, {"wgcc/ir/graph.py": "import wgpu\n", "notes.txt": ""})
    command = [sys.executable, str(ROOT / "tests" / "lint"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == [
        "notes.txt:1: unknown name at the top of the checkout",
        "wgcc/ir/graph.py:1: imports wgpu",
        "wgcc/ir/graph.py:1: no docstring says what the module owns",
    ]


def test_files_that_git_ignores_are_not_checked(tmp_path: Path) -> None:
    write(tmp_path, {"kept.py": "", ".gitignore": "left.py\n", "left.py": ""})
    everything = tracked_files(tmp_path)
    assert len(everything) == 3  # an archive has no git
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1"}
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, env=environment, check=True)
    assert {path.name for path in tracked_files(tmp_path)} == {"kept.py", ".gitignore"}


def test_javascript_functions_are_found() -> None:
    """A method, an arrow in it, a function."""
    text = """class A {
  async #run(jobs) {
    jobs.forEach(job => {
      if (job) {
        job();
      }
    });
  }
}
function add(
  one,
  { other },
) {
  return one + other;
}
"""
    assert [(line, length) for line, _, length in functions(text)] == [(2, 7), (3, 5), (10, 6)]


ENDS = endings(Tree(ROOT).files)


@pytest.mark.parametrize("text", ["see `gone.py`", "(gone/away.md)", "in wgcc/ops/gone.py, too"])
def test_a_stale_name_is_found(text: str) -> None:
    (named,) = NAMED.findall(text)
    assert not exists(named, ENDS) and not PLACEHOLDER.search(named)


@pytest.mark.parametrize("text", ["wgcc/errors.py", "`registry.py`", "[page](../wgcc/BUNDLE.md)"])
def test_a_name_of_a_file_is_found(text: str) -> None:
    (named,) = NAMED.findall(text)
    assert exists(named, ENDS)
