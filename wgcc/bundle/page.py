"""Pages, and the JavaScript runtime that they and bundles load.

The modules of runtime_js are joined into a few files, without comments and blanks: wgcc.js is all
that a page loads to train and predict; the files in wgcc/ are loaded when they are first needed. A
page is a template with runtime, bundle and data inlined, because a browser that opens it from a
double click (file://) refuses to load other files; or with all of them beside it, to be served
under a policy that forbids inline scripts and styles.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

from wgcc.bundle.content import DATA, preparation_text_of, title_of
from wgcc.bundle.javascript import (
    bytes_literal,
    fill,
    kernels_literal,
    plan_literal,
    seal_text,
    strip_css,
    strip_javascript,
    template,
)
from wgcc.bundle.modules import join_modules, read_module
from wgcc.bundle.owned import WEIGHTS
from wgcc.bundle.plan import TOKENIZER
from wgcc.files import data_dir, keep_cached, read_cached

# File -> the module that defines its exports; each file after those it imports statically.
FILES = {
    "wgcc.js": "core/wgcc.js",
    "wgcc/check.js": "check/check.js",
    "wgcc/files.js": "files/files.js",
    "wgcc/fit.js": "fit/fit.js",
    "wgcc/draw.js": "draw/draw.js",
    "wgcc/inspect.js": "inspect/inspect.js",
    "wgcc/calls.js": "calls/calls.js",
    "wgcc/data.js": "data/data.js",
    "wgcc/receipts.js": "receipts/receipts.js",
    "wgcc/worker.js": "worker/worker.js",
    "wgcc/serve.js": "serve/serve.js",
    "wgcc/wasm.js": "wasm/wasm.js",
    "wgcc/tokens.js": "tokens/tokens.js",
    "wgcc/adapters.js": "adapters/adapters.js",
}
# The script of a page, which imports them.
PAGE = "wgcc/page.js"
# Only bundles with a file of tokens have them.
TOKENS, ADAPTERS = "wgcc/tokens.js", "wgcc/adapters.js"
# What joins and strips: other code makes other files of the same sources.
_TOOLS = ("page.py", "javascript.py", "modules.py")
_BANNER = "// The runtime of wgcc, MIT licence; with comments: runtime_js of the sources of wgcc.\n"


@lru_cache(maxsize=1)
def runtime_files() -> dict[str, str]:
    """The files that pages load, by name."""
    files = page_files(data_dir("runtime_js") / "page", "app.js", False)
    return {name: files[name] for name in FILES}


def shipped_files(files: Iterable[str]) -> dict[str, str]:
    """Those of a bundle that has these `files`: the same for every bundle of one wgcc version."""
    return without_tokens(runtime_files(), files)


def without_tokens(runtime: Mapping[str, str], files: Iterable[str]) -> dict[str, str]:
    left_out = () if TOKENIZER in files else (TOKENS, ADAPTERS)
    return {name: text for name, text in runtime.items() if name not in left_out}


@lru_cache(maxsize=1)
def readable_files() -> dict[str, str]:
    """The same files with comments, types and blanks."""
    joined = _join(page_modules(), "page/app.js")
    return {name: joined[name] for name in FILES}


@lru_cache(maxsize=8)
def page_files(folder: Path, entry: str, is_served: bool) -> dict[str, str]:
    """The script of a page as `PAGE`, and the files of the runtime with all that it imports.

    `folder` has the module `entry` and those beside it that the page imports. The script has places
    for what a bundle holds: see `page.py`.
    """
    modules = page_modules()
    if is_served:
        modules["page/bundle.js"] = modules["page/served_bundle.js"]
    if folder == data_dir("runtime_js") / "page":
        return _kept_files(modules, f"page/{entry}")
    modules |= {f"own/{path.name}": _text(path) for path in sorted(folder.glob("*.js"))}
    return _stripped_files(modules, f"own/{entry}")


def _kept_files(page: Mapping[str, str], entry: str) -> dict[str, str]:
    sources = [entry, {**runtime_modules(), **page}, _data_files()]
    return _keep("javascript", sources, lambda: _stripped_files(page, entry))


def _keep(kind: str, sources: Any, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """The files as an earlier run of this wgcc made them of these sources, if there was one."""
    tools = [_text(Path(__file__).with_name(name)) for name in _TOOLS]
    digest = hashlib.sha256(json.dumps([sources, tools], sort_keys=True).encode()).hexdigest()
    key = f"{kind}-{digest[:24]}"
    kept = read_cached(key)
    if kept is not None:
        files: dict[str, str] = json.loads(kept)
        return files
    files = make()
    keep_cached(key, json.dumps(files).encode())
    return files


def _stripped_files(page: Mapping[str, str], entry: str) -> dict[str, str]:
    return {name: _strip(text) for name, text in _join(page, entry).items()}


def _join(page: Mapping[str, str], entry: str) -> dict[str, str]:
    files, places = {**FILES, PAGE: entry}, {"page": PAGE, "own": PAGE}
    return join_modules({**runtime_modules(), **page}, files, _data_files(), places)


def _data_files() -> dict[str, str]:
    # Only here, because it takes time to import.
    from wgcc_runtime.strict_json import SCHEMA_FILE, TABLES
    from wgcc_runtime.twin_form import FORM_FILE

    files = (SCHEMA_FILE, FORM_FILE, *sorted(TABLES.glob("*.json")))
    return {file.name: _text(file) for file in files}


def runtime_modules() -> dict[str, str]:
    """The modules' texts by path in runtime_js."""
    return _modules(entry.partition("/")[0] for entry in FILES.values())


def page_modules() -> dict[str, str]:
    """The same of the page of a bundle."""
    return _modules(["page"])


def _modules(folders: Iterable[str]) -> dict[str, str]:
    root = data_dir("runtime_js")
    paths = [path for folder in folders for path in sorted((root / folder).glob("*.js"))]
    return {path.relative_to(root).as_posix(): _text(path) for path in paths}


def _strip(text: str) -> str:
    return _BANNER + strip_javascript(text)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


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
    linked_files = {}

    def link(match: re.Match[str]) -> str:
        if match[1].endswith(".css"):
            linked_files["wgcc/page.css"] = _style(html, match[1])
            return '<link rel="stylesheet" href="wgcc/page.css">'
        script = page_files(html.parent, match[1], True)[PAGE]
        linked_files[PAGE] = fill(script, **_served_values(plan, files))
        return f'<script type="module" src="{PAGE}"></script>'

    return {"served.html": _INLINE.sub(link, _with_title(html, plan, files)), **linked_files}


def framed_files() -> dict[str, str]:
    """The same page for the bundle that the page around its frame holds, and the runtime."""
    folder = data_dir("runtime_js") / "page"
    html = folder / "index.html"
    modules = page_modules()
    modules["page/bundle.js"] = _text(data_dir("runtime_js") / "workbench" / "framed_bundle.js")
    files = _kept_files(modules, "page/app.js")

    def link(match: re.Match[str]) -> str:
        if match[1].endswith(".css"):
            files["wgcc/page.css"] = _style(html, match[1])
            return '<link rel="stylesheet" href="wgcc/page.css">'
        return f'<script type="module" src="{PAGE}"></script>'

    page = _INLINE.sub(link, _text(html).replace("__MODEL__", ""))
    return {**files, "run.html": page}


def _served_values(plan: Plan, files: Files) -> dict[str, str]:
    """The values that fill the places of served_bundle.js."""
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

    def inline(match: re.Match[str]) -> str:
        if match[1].endswith(".css"):
            return f"<style>\n{_style(html, match[1])}</style>"
        runtime = dict(_scripts(html.parent, match[1]))
        page = fill(runtime.pop(PAGE), **_values(plan, files, data, seal, large or {}))
        text = "\n".join([_runtime_objects(without_tokens(runtime, files)), page, ""])
        return f'<script type="module">\n{_safe(text)}</script>'

    return _INLINE.sub(inline, _with_title(html, plan, files))


def _with_title(html: Path, plan: Plan, files: Files) -> str:
    title = title_of(files) or plan["model"]["name"]
    return html.read_text(encoding="utf-8").replace("__MODEL__", escape(title))


def _style(html: Path, names: str) -> str:
    own = ((html.parent / name, name) for name in names.split())
    texts = (path.read_text("utf-8") if path.exists() else template(f"page/{n}") for path, n in own)
    return "".join(map(strip_css, texts))


def _values(plan: Plan, files: Files, data: Files, seal: str, large: Sizes) -> dict[str, str]:
    """The values that fill the places of bundle.js."""
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


def _runtime_objects(scripts: Mapping[str, str]) -> str:
    """The objects of all files; as one function, whose text also starts a worker."""
    objects = "\n".join(
        f"const {_variable(name)}=(()=>{{\n{script}\n}})();" for name, script in scripts.items()
    )
    names = ",".join(map(_variable, scripts))
    return f"const runtime=()=>{{\n{objects}\nreturn{{{names}}};\n}};\nconst{{{names}}}=runtime();"


@lru_cache(maxsize=8)
def _scripts(folder: Path, entry: str) -> dict[str, str]:
    """The files of a page as scripts."""
    files = page_files(folder, entry, False)
    return _keep("scripts", files, lambda: {name: _script(name, files[name]) for name in files})


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
