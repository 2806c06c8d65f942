"""Pages: a template with runtime, bundle and data inlined, or beside it.

A page must work from a double click (file://), where a browser refuses to load other files. A page
that is served may have to work under a policy that forbids inline scripts and styles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

from wgcc.bundle.data_file import FILE as DATA
from wgcc.bundle.data_file import preparation_text_of, title_of
from wgcc.bundle.owned import WEIGHTS
from wgcc.bundle.plan import TOKENIZER
from wgcc.bundle.runtime_js import shipped_files
from wgcc.bundle.seal import seal_text
from wgcc.bundle.strip import strip_css, strip_javascript
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
        names = match[1].split()
        if names[0] != "runtime":
            found["wgcc/page.css"] = _joined(_text_of(html, name) for name in names)
            return '<link rel="stylesheet" href="wgcc/page.css">'
        parts = [_served_bundle(plan, files), *(_text_of(html, name) for name in names[1:])]
        found["wgcc/page.js"] = _joined(parts)
        return '<script type="module" src="wgcc/page.js"></script>'

    return {"served.html": _INLINE.sub(linked, _titled(html, plan, files)), **found}


def _served_bundle(plan: Plan, files: Files) -> str:
    """What `_runtime` is for a page that is one file."""
    data = [f"{json.dumps(DATA)}:await bytesOf('{DATA}')"] if DATA in files else []
    bundle = fill(
        strip_javascript(template("page/served_bundle.js")),
        SOURCE=plan["model"]["source"],
        FILES=f"{{{','.join(data)}}}",
        PARTS=json.dumps(_TRAINING_PARTS),
    )
    return _joined([bundle, strip_javascript(template("page/runtime_names.js"))])


def build_page(
    html: Path, plan: Plan, files: Files, data: Files, seal: str = "", large: Sizes | None = None
) -> str:
    """The page `html`, in which comments are replaced by what they name.

    `<!-- inline A.css -->` becomes a style. `<!-- inline runtime A.js B.js -->` becomes one module:
    the runtime, the bundle as `load(options)`, `data` as bytes by name in `files`, the scripts.
    Files are looked up beside the page, then in the folder that all pages share. `large`: sizes of
    files of the bundle that stay beside the page.
    """

    def inlined(match: re.Match[str]) -> str:
        text = _joined(
            _runtime(plan, files, data, seal, large or {})
            if name == "runtime"
            else _text_of(html, name)
            for name in match[1].split()
        )
        if match[1].endswith(".css"):
            return f"<style>\n{text}</style>"
        return f'<script type="module">\n{_safe(text)}</script>'

    return _INLINE.sub(inlined, _titled(html, plan, files))


def _titled(html: Path, plan: Plan, files: Files) -> str:
    title = title_of(files) or plan["model"]["name"]
    return html.read_text(encoding="utf-8").replace("__MODEL__", escape(title))


def _text_of(html: Path, name: str) -> str:
    own = html.parent / name
    text = own.read_text(encoding="utf-8") if own.exists() else template(f"page/{name}")
    return strip_css(text) if name.endswith(".css") else strip_javascript(text)


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part.strip() for part in parts) + "\n"


def _runtime(plan: Plan, files: Files, data: Files, seal: str, large: Sizes) -> str:
    source = files[plan["model"]["source"]].decode("utf-8")
    loaded = [f"{json.dumps(name)}:decoded({bytes_literal(d)})" for name, d in data.items()]
    beside = {**large, **_too_large(files)}
    inside = {name: files[name] for name in files if name not in beside}
    bundle = fill(
        strip_javascript(template("page/bundle.js")),
        PLAN=plan_literal(files),
        KERNELS=kernels_literal(files),
        SOURCE=json.dumps(source, ensure_ascii=False),
        WEIGHTS=bytes_literal(inside.get(WEIGHTS)),
        FILES_BESIDE=_files_beside(beside),
        TOKENS="async()=>tokens_js" if TOKENIZER in files else "undefined",
        TOKENIZER=bytes_literal(inside.get(TOKENIZER)),
        TWIN=bytes_literal(files.get("twin.wasm")),
        CONSTANTS=bytes_literal(files.get("constants.safetensors")),
        SEAL=seal or seal_text(files),
        FILES=f"{{{','.join(loaded)}}}",
        PREPARATION=preparation_text_of(files) or "undefined",
    )
    names = strip_javascript(template("page/runtime_names.js"))
    return _joined([_runtime_objects(shipped_files(files)), bundle, names])


def _too_large(files: Files) -> Sizes:
    sizes = {name: len(files[name]) for name in (WEIGHTS, TOKENIZER) if name in files}
    return {name: size for name, size in sizes.items() if size > MOST_INSIDE}


def _files_beside(sizes: Sizes) -> str:
    listed = [{"name": name, "size": size} for name, size in sizes.items()]
    return json.dumps(listed, separators=(",", ":"))


def _runtime_objects(files: Mapping[str, str]) -> str:
    """The objects of all files; as one function, whose text also starts a worker."""
    objects = _joined(_as_object(*file) for file in files.items())
    names = ",".join(f"{PurePosixPath(name).stem}_js" for name in files)
    return f"const runtime=()=>{{\n{objects}return{{{names}}};\n}};\nconst{{{names}}}=runtime();"


def _as_object(name: str, text: str) -> str:
    """A file A.js of the runtime, below its first line, as the object `A_js` of its exports."""
    module = r"'[./]+(?:wgcc/)?(\w+)\.js'"
    text = text.partition("\n")[2]
    text = re.sub(rf"^import(\{{[^}}]*\}})from{module};", r"const\1=\2_js;", text, flags=re.M)
    text = re.sub(rf"import\({module}\)", r"Promise.resolve().then(()=>\1_js)", text)
    variable = f"{PurePosixPath(name).stem}_js"
    # The last line of a joined file says what it exports.
    body = re.sub(r"^export(\{[^}]*\};)\n\Z", r"return\1", text, flags=re.M)
    return f"const {variable}=(()=>{{\n{body.strip()}\n}})();"


def _safe(script: str) -> str:
    """Escapes text that would end the script element."""
    return re.sub(r"</(?=script)|<!--", lambda match: match[0][0] + "\\" + match[0][1:], script)
