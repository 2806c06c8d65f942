"""Pages: a template with runtime, bundle and data inlined, or beside it.

A page must work from a double click (file://), where a browser refuses to load other files. A page
that is served may have to work under a policy that forbids inline scripts and styles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

from wgcc.bundle.data_file import FILE as DATA
from wgcc.bundle.data_file import preparation_text_of, title_of
from wgcc.bundle.javascript import strip_css
from wgcc.bundle.modules import read_module
from wgcc.bundle.owned import WEIGHTS
from wgcc.bundle.plan import TOKENIZER
from wgcc.bundle.runtime_js import PAGE, page_files, without_tokens
from wgcc.bundle.seal import seal_text
from wgcc.bundle.web_text import bytes_literal, fill, kernels_literal, plan_literal, template
from wgcc.paths import data_dir

Plan = Mapping[str, Any]
Files = Mapping[str, bytes]
Sizes = Mapping[str, int]
# Bytes of weights, or of a file of tokens, up to which they are inside the page.
MOST_INSIDE = 8_000_000
# What training may load of the runtime after the page itself.
_TRAINING_PARTS = ("fit", "calls", "check", "inspect")
_INLINE = re.compile(r"<!-- inline ([\w. ]+) -->")


def page_html(plan: Plan, files: Files, large: Sizes, seal: str) -> str:
    """index.html of a bundle."""
    data = {DATA: files[DATA]} if DATA in files else {}
    html = data_dir("runtime_js") / "page" / "index.html"
    return build_page(html, plan, files, data, seal, large)


def served_files(plan: Plan, files: Files) -> dict[str, str]:
    """The same page without inline scripts and styles: served.html, its script and its style."""
    html = data_dir("runtime_js") / "page" / "index.html"
    found = {}

    def linked(match: re.Match[str]) -> str:
        if match[1].endswith(".css"):
            found["wgcc/page.css"] = _style(html, match[1])
            return '<link rel="stylesheet" href="wgcc/page.css">'
        script = page_files(html.parent, match[1], True)[PAGE]
        found[PAGE] = fill(script, **_served_values(plan, files))
        return f'<script type="module" src="{PAGE}"></script>'

    return {"served.html": _INLINE.sub(linked, _titled(html, plan, files)), **found}


def _served_values(plan: Plan, files: Files) -> dict[str, str]:
    """What fills the places of served_bundle.js."""
    data = [f"{json.dumps(DATA)}:await bytesOf('{DATA}')"] if DATA in files else []
    return {
        "SOURCE": plan["model"]["source"],
        "FILES": f"{{{','.join(data)}}}",
        "PARTS": json.dumps(_TRAINING_PARTS),
    }


def build_page(
    html: Path, plan: Plan, files: Files, data: Files, seal: str = "", large: Sizes | None = None
) -> str:
    """The page `html`, in which comments are replaced by what they name.

    `<!-- inline A.css B.css -->` becomes a style; sheets are looked up beside the page, then in the
    folder that all pages share. `<!-- inline A.js -->` becomes one script: the runtime, and this
    module with all that it imports, beside it or from `runtime_js/page`. There, bundle.js is the
    bundle, with `data` as bytes by name in `files`. `large`: sizes of files of the bundle that stay
    beside the page.
    """

    def inlined(match: re.Match[str]) -> str:
        if match[1].endswith(".css"):
            return f"<style>\n{_style(html, match[1])}</style>"
        runtime = dict(page_files(html.parent, match[1], False))
        script = _script(PAGE, runtime.pop(PAGE))
        page = fill(script, **_values(plan, files, data, seal, large or {}))
        text = "\n".join([_runtime_objects(without_tokens(runtime, files)), page, ""])
        return f'<script type="module">\n{_safe(text)}</script>'

    return _INLINE.sub(inlined, _titled(html, plan, files))


def _titled(html: Path, plan: Plan, files: Files) -> str:
    title = title_of(files) or plan["model"]["name"]
    return html.read_text(encoding="utf-8").replace("__MODEL__", escape(title))


def _style(html: Path, names: str) -> str:
    own = ((html.parent / name, name) for name in names.split())
    texts = (path.read_text("utf-8") if path.exists() else template(f"page/{n}") for path, n in own)
    return "".join(map(strip_css, texts))


def _values(plan: Plan, files: Files, data: Files, seal: str, large: Sizes) -> dict[str, str]:
    """What fills the places of bundle.js."""
    source = files[plan["model"]["source"]].decode("utf-8")
    loaded = [f"{json.dumps(name)}:decoded({bytes_literal(d)})" for name, d in data.items()]
    beside = {**large, **_too_large(files)}
    inside = {name: files[name] for name in files if name not in beside}
    return {
        "PLAN": plan_literal(files),
        "KERNELS": kernels_literal(files),
        "SOURCE": json.dumps(source, ensure_ascii=False),
        "WEIGHTS": bytes_literal(inside.get(WEIGHTS)),
        "FILES_BESIDE": _files_beside(beside),
        "TOKENS": "async()=>tokens_js" if TOKENIZER in files else "undefined",
        "TOKENIZER": bytes_literal(inside.get(TOKENIZER)),
        "TWIN": bytes_literal(files.get("twin.wasm")),
        "CONSTANTS": bytes_literal(files.get("constants.safetensors")),
        "SEAL": seal or seal_text(files),
        "FILES": f"{{{','.join(loaded)}}}",
        "PREPARATION": preparation_text_of(files) or "undefined",
    }


def _too_large(files: Files) -> Sizes:
    sizes = {name: len(files[name]) for name in (WEIGHTS, TOKENIZER) if name in files}
    return {name: size for name, size in sizes.items() if size > MOST_INSIDE}


def _files_beside(sizes: Sizes) -> str:
    listed = [{"name": name, "size": size} for name, size in sizes.items()]
    return json.dumps(listed, separators=(",", ":"))


def _runtime_objects(files: Mapping[str, str]) -> str:
    """The objects of all files; as one function, whose text also starts a worker."""
    objects = "\n".join(
        f"const {_variable(name)}=(()=>{{\n{_script(name, text)}\n}})();"
        for name, text in files.items()
    )
    names = ",".join(map(_variable, files))
    return f"const runtime=()=>{{\n{objects}\nreturn{{{names}}};\n}};\nconst{{{names}}}=runtime();"


@lru_cache(maxsize=64)
def _script(name: str, text: str) -> str:
    """A joined file without imports and exports: it takes from the objects of other files.

    It returns the object of its own exports, if it has some.
    """
    module = read_module(name, text.partition("\n")[2])
    code = module.code(lambda path: f"Promise.resolve().then(()=>{_variable(path)})")
    taken = [f"const{{{','.join(n)}}}={_variable(path)};" for path, n in module.imports.items()]
    given = [f"return{{{','.join(module.exports)}}};"] if module.exports else []
    return "\n".join([*taken, code, *given])


def _variable(path: str) -> str:
    return f"{PurePosixPath(path).stem}_js"


def _safe(script: str) -> str:
    """Escapes text that would end the script element."""
    return re.sub(r"</(?=script)|<!--", lambda match: match[0][0] + "\\" + match[0][1:], script)
