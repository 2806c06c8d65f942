"""Reads the files of a bundle from a folder or a .zip: none from outside, none too large."""

from __future__ import annotations

import hashlib
import re
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Kernel, Twin
from wgcc_runtime.strict_json import table

MAX_KERNEL_BYTES = 1 << 20
MAX_TWIN_BYTES = 16 << 20

# RuntimeError stands for an encrypted member, NotImplementedError for an unknown compression.
_ZIP_ERRORS = (
    OSError, ValueError, EOFError, RuntimeError, NotImplementedError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip

Read = Callable[[str, int], "bytes | None"]


def open_bundle(path: str | Path) -> Read:
    """A function (name, largest size) -> bytes, or None for a file the bundle does not have."""
    root = Path(path)
    try:
        if root.is_dir():
            return Folder(root)
        if not root.exists():
            raise WgccError("bundle", f"there is no bundle at {root}")
        if not zipfile.is_zipfile(root):
            build = f": `wgcc build {root} -o bundle` makes one" if root.suffix == ".wg" else ""
            text = f"{root} is neither the folder of a bundle nor a .zip of it{build}"
            raise WgccError("bundle", text)
        return _zip_reader(root)
    except _ZIP_ERRORS as error:
        raise WgccError("bundle", f"cannot read {root}: {error}") from None


def read_forms(read: Read, kernel: Kernel) -> list[str]:
    """The text of a kernel and, if it has one, its form for devices with subgroups."""
    form = read_subgroups(read, kernel)
    return [read_kernel(read, kernel), *([] if form is None else [form])]


def read_kernel(read: Read, kernel: Kernel) -> str:
    """The WGSL text of a kernel, refused if the digest of its code is not the one in the plan."""
    return _read_code(read, f"kernels/{kernel.file}", kernel, kernel.sha256)


def read_subgroups(read: Read, kernel: Kernel) -> str | None:
    """The kernel's form for devices with subgroups, if it has one."""
    if kernel.subgroups is None:
        return None
    return _read_code(read, f"subgroups/{kernel.file}", kernel, kernel.subgroups)


def _read_code(read: Read, name: str, kernel: Kernel, digest: str) -> str:
    data = _read(read, name, MAX_KERNEL_BYTES)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise WgccError("bundle", f"{name} is not UTF-8 text", kernel.file) from None
    _check_digest(name, code_digest(text), digest)
    return text


def read_twin(read: Read, twin: Twin) -> bytes:
    """The WebAssembly module, refused when it is not what the plan was written with."""
    data = _read(read, twin.file, MAX_TWIN_BYTES)
    _check_digest(twin.file, hashlib.sha256(data).hexdigest(), twin.sha256)
    return data


def _read(read: Read, name: str, limit: int) -> bytes:
    data = read(name, limit)
    if data is None:
        raise WgccError("bundle", f"the bundle lacks {name}", PurePosixPath(name).name)
    return data


def _check_digest(name: str, actual: str, wanted: str) -> None:
    if actual != wanted:
        is_kernel = name.startswith("kernels/")
        accept = ", or run `wgcc accept` on the bundle to use it as it is" if is_kernel else ""
        raise WgccError(
            "bundle",
            f"{name} was changed after the bundle was built (its SHA-256 differs from plan.json): "
            f"build the model again{accept}",
            PurePosixPath(name).name,
        )


class Folder:
    """The `Read` of a folder, which can also say where a file is."""

    def __init__(self, root: Path) -> None:
        # Copies read it again, wherever the process is by then.
        self.root = root.absolute()

    def __call__(self, name: str, limit: int) -> bytes | None:
        path = self.path(name, limit)
        try:
            return None if path is None else path.read_bytes()
        except OSError as error:
            raise WgccError("bundle", f"cannot read {name}: {error}", name) from None

    def path(self, name: str, limit: int) -> Path | None:
        """The path of a plain file of at most `limit` bytes; None if there is no such file."""
        path = self.root
        for part in PurePosixPath(name).parts:
            path = path / part
            if path.is_symlink():
                raise WgccError(
                    "bundle", f"{name} is a symbolic link; a bundle holds plain files", name
                )
        try:
            if not path.exists():
                return None
            facts = path.stat()
        except OSError as error:
            raise WgccError("bundle", f"cannot read {name}: {error}", name) from None
        if not stat.S_ISREG(facts.st_mode):
            raise WgccError("bundle", f"{name} is not a plain file", name)
        _check_size(name, facts.st_size, limit)
        return path


def _zip_reader(root: Path) -> Read:
    with zipfile.ZipFile(root) as archive:
        prefix = _prefix(archive)

    def read(name: str, limit: int) -> bytes | None:
        try:
            with zipfile.ZipFile(root) as archive:
                return _read_in_zip(archive, prefix, name, limit)
        except _ZIP_ERRORS as error:
            raise WgccError("bundle", f"cannot read {name} in {root}: {error}", name) from None

    return read


def _prefix(archive: zipfile.ZipFile) -> str:
    """The folder of plan.json in the archive: bundles are zipped with or without their folder."""
    plans = [name for name in archive.namelist() if PurePosixPath(name).name == "plan.json"]
    if not plans:
        return ""
    return min(plans, key=lambda name: name.count("/")).removesuffix("plan.json")


def _read_in_zip(archive: zipfile.ZipFile, prefix: str, name: str, limit: int) -> bytes | None:
    try:
        member = archive.getinfo(prefix + name)
    except KeyError:
        return None
    if stat.S_ISLNK(member.external_attr >> 16):
        raise WgccError("bundle", f"{name} is a symbolic link; a bundle holds plain files", name)
    _check_size(name, member.file_size, limit)
    with archive.open(member) as stream:
        # The declared size may be wrong, so no more than that is ever unpacked.
        data = stream.read(member.file_size + 1)
    _check_size(name, len(data), member.file_size)
    return data


def _check_size(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise WgccError("bundle", f"{name} has {size:,} bytes; at most {limit:,} are read", name)


# A line that holds nothing but a comment; WGSL has seven line breaks.
_COMMENT_LINE = re.compile("(?<![^\n])[ \t]*//[^\n\v\f\r\x85\u2028\u2029]*\n")


def code_of(text: str) -> str:
    """The text of a kernel without lines that are comments."""
    return _COMMENT_LINE.sub("", text)


def code_digest(text: str) -> str:
    """SHA-256 of the code, so that comments may differ between a file and a page."""
    return hashlib.sha256(code_of(text).encode("utf-8")).hexdigest()


MAX: dict[str, int] = table("wgsl_guard")

# A line comment ends with its line; WGSL has seven line breaks.
_COMMENTS = re.compile("//[^\n\v\f\r\x85\u2028\u2029]*|/\\*.*?\\*/", re.DOTALL)
_BRACKETS = re.compile(r"[()\[\]{}]")
_OPERATORS = re.compile(r"[-+*/%&|^!~<>=.(\[]")


def guard_wgsl(source: str, file: str) -> None:
    """Raises a `WgccError` with code `kernel` if the text could crash the compiler."""
    text = _COMMENTS.sub(" ", source)
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "([{" else -1
        deepest = max(deepest, depth)
    statements = re.split(r"[;{}]", text)
    for count, most, what in (
        (deepest, MAX["nesting"], "nested brackets"),
        (max(map(_operators, statements)), MAX["operators"], "operators in one statement"),
        (len(re.findall(r"\belse\b", text)), MAX["else"], "else branches"),
        (len(statements), MAX["statements"], "statements"),
    ):
        if count > most:
            text = f"kernels/{file} has {count} {what}; at most {most} are passed to the GPU driver"
            raise WgccError("kernel", text, file)


def _operators(statement: str) -> int:
    # A short statement cannot have too many.
    return len(_OPERATORS.findall(statement)) if len(statement) > MAX["operators"] else 0
