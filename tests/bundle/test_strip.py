"""What pages load has no comments and blanks, and means what the readable source means."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from adapters import ROOT
from web_stacks import NODE, build_web, tool
from wgcc.bundle.javascript import JavaScriptError, strip_css, strip_javascript, tokenize
from wgcc.bundle.page import ADAPTERS, TOKENS, readable_files, shipped_files

CASES = {
    "comments": ("// a\nlet a = 1; /* b */ let b = 2; // c\n", "let a=1;let b=2;\n"),
    "a comment with a line break": ("return /* \n */ a", "return\na\n"),
    "blank lines": ("\n\na();\n\n\n  b();\n", "a();\nb();\n"),
    "words": ("async function* f(a) { yield a; }", "async function*f(a){yield a;}\n"),
    "signs": ("a + +b - -c + b++ + ++d - --e", "a+ +b- -c+b++ + ++d- --e\n"),
    "texts": (
        "x = '// no' + \"/* no */\" + 'it\\'s  two'",
        "x='// no'+\"/* no */\"+'it\\'s  two'\n",
    ),
    "templates": (
        "x = `a  ${ f(`b  ${ {c: 1}.c }  /* d */`) }  // e`;",
        "x=`a  ${f(`b  ${{c:1}.c}  /* d */`)}  // e`;\n",
    ),
    "escapes in templates": ("x = `\\`  \\${ $ 1 `", "x=`\\`  \\${ $ 1 `\n"),
    "division": ("a / b / c; (a) / b; a[0] / 2; x /= 3", "a/b/c;(a)/b;a[0]/2;x/=3\n"),
    "regular expressions": (
        "return /[/\\]] '/g.test(a) || b.match( /\\// )",
        "return/[/\\]] '/g.test(a)||b.match(/\\//)\n",
    ),
    "division after names of properties": ("a.return / b.of / 2; i++ / 2", None),
    "a regular expression after a condition": (
        "if (a) /b  c/.test(d); while (f(e)) /'/g.exec(h); (a) / b / (c)",
        "if(a)/b  c/.test(d);while(f(e))/'/g.exec(h);(a)/b/(c)\n",
    ),
    "a brace in a template": ("x = `a } ${ b ? `}  ${ c }` : '}' } {  `", None),
    "a division in a template": ("x = `${ a / b }  /  ${ /  }/.source }`", None),
    "imports in texts": ("x = 'import  { a }' + `import  ('b')` // import 'c'", None),
    "division by one": ("a / /b/.length", "a/ /b/.length\n"),
    "numbers": ("1 .toFixed() + 0x1f + .5 + 2e-3 + 1_000n", "1 .toFixed()+0x1f+.5+2e-3+1_000n\n"),
    "a choice": ("a ? .5 : b?.c", "a? .5:b?.c\n"),
    "private names": ("class A { #b = 1; static #c; d = #b in this }", None),
    "html's comment": ("a < !--b", "a< !--b\n"),
    "other letters": ("const größe = 'ü'", "const größe='ü'\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_code(name: str) -> None:
    source, expected = CASES[name]
    stripped = strip_javascript(source)
    assert expected is None or stripped == expected
    assert code_of(stripped) == code_of(source)
    assert strip_javascript(stripped) == stripped


def code_of(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokenize(text) if token.kind != "comment"]


@pytest.mark.parametrize(
    "text",
    ["x = 'a\nb'", "`a", "if (a) {} /b/.test(c)", "a \\ b", "f(a]", "f(a))", "`${ a `", "x = {"],
)
def test_what_is_not_read_is_refused(text: str) -> None:
    with pytest.raises(JavaScriptError):
        strip_javascript(text)


def test_tokens_have_kinds_places_and_depths() -> None:
    text = "f(`a${ b }`, /c/) // d\n+ 'e'"
    tokens = list(tokenize(text))
    assert [(token.kind, token.text, token.depth) for token in tokens] == [
        ("name", "f", 0), ("sign", "(", 0), ("template", "`a${", 1), ("name", "b", 2),
        ("template", "}`", 1), ("sign", ",", 1), ("regex", "/c/", 1), ("sign", ")", 0),
        ("comment", "// d", 0), ("sign", "+", 0), ("string", "'e'", 0),
    ]  # fmt: skip
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert [token.text for token in tokens if token.is_new_line] == ["+"]


def test_style_sheets() -> None:
    assert strip_css("/* a */\n\na {\n  b: c d; /* e\n f */\n}\n") == "a {\nb: c d;\n}\n"


def scripts() -> dict[str, str]:
    page = (ROOT / "runtime_js").glob("page/*.js")
    own = (ROOT / "examples").glob("*/*.js")
    return {**readable_files(), **{str(path): path.read_text("utf-8") for path in (*page, *own)}}


def test_another_parser_finds_the_same_code(tmp_path: Path) -> None:
    """esbuild prints the readable and the stripped scripts alike, down to every name."""
    for number, text in enumerate(scripts().values()):
        for form, code in (("readable", text), ("stripped", strip_javascript(text))):
            (tmp_path / form).mkdir(exist_ok=True)
            (tmp_path / form / f"{number}.js").write_text(code, encoding="utf-8")
    for form in ("readable", "stripped"):
        files = [str(path) for path in sorted((tmp_path / form).glob("*.js"))]
        target = str(tmp_path / f"{form}-out")
        done = tool("esbuild", *files, "--minify-whitespace", f"--outdir={target}")
        assert done.returncode == 0, done.stderr
    for number, name in enumerate(scripts()):
        readable, stripped = (
            (tmp_path / f"{form}-out" / f"{number}.js").read_text("utf-8")
            for form in ("readable", "stripped")
        )
        assert readable == stripped, name
        assert len(readable) > 50


def test_what_a_bundle_holds(tmp_path: Path) -> None:
    bundle = build_web(ROOT / "tests" / "golden" / "regression.wg", tmp_path / "bundle")
    runtime = shipped_files(())
    assert readable_files().keys() - runtime.keys() == {TOKENS, ADAPTERS}
    for name in ("index.js", "kernels.js", *runtime):
        first, _, code = (bundle / name).read_text(encoding="utf-8").partition("\n")
        assert first.startswith("// The "), name
        assert strip_javascript(code) == code, name
    page = (bundle / "index.html").read_text(encoding="utf-8")
    scripts = re.findall(r'<script type="module">\n(.*?)\n</script>', page, re.DOTALL)
    styles = re.findall(r"<style>\n(.*?)\n</style>", page, re.DOTALL)
    assert scripts and [strip_javascript(script).strip() for script in scripts] == scripts
    assert styles and [strip_css(style).strip() for style in styles] == styles
    scripts = {path.name for path in (bundle / "wgcc").iterdir()}
    wanted = {Path(name).name for name in runtime if "/" in name}
    assert scripts == {*wanted, "page.js", "page.css"}, "nothing that no page loads"


def test_a_stack_trace_has_names_and_short_lines(tmp_path: Path) -> None:
    bundle = build_web(ROOT / "tests" / "golden" / "regression.wg", tmp_path / "bundle")
    script = (
        f"const {{ load }} = await import({json.dumps((bundle / 'index.js').as_uri())});"
        "const model = await load();"
        "const error = await model.train({ x: 1 }).catch(error => error);"
        "process.stdout.write(error.stack)"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], capture_output=True, text=True, cwd=NODE
    )
    places = re.findall(
        r"at (?:async |Module\.)*([\w.]+) \(.*/(wgcc(?:/\w+)?\.js):(\d+):(\d+)\)", done.stdout
    )
    assert ("refuseInputs", "wgcc/check.js") in [place[:2] for place in places], done.stdout
    for _, name, line, _ in places:
        assert len((bundle / name).read_text("utf-8").splitlines()[int(line) - 1]) < 150
