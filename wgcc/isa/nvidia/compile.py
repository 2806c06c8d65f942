"""Compiles kernels as CUDA C++ with NVRTC, and disassembles them with nvdisasm."""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wgcc.backends.cuda.print_tree import PRELUDE, print_module
from wgcc.errors import WgError
from wgcc.isa import tools
from wgcc.isa.processes import last_line, run_worker
from wgcc.kernel.parse import parse_module
from wgcc.kernel.tokenize import WgslError

# What ptxas prints of each function, and how nvdisasm begins its listing.
_USED = re.compile(r"entry function '(\w+)'(.*?)Used (\d+) registers([^\n]*)", re.S)
_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)", re.M)


@dataclass(frozen=True, slots=True)
class NvidiaCode:
    """`spills`: words that a thread stores for want of registers; `shared`: bytes of a workgroup.

    Lines of the listing name lines of `source`, the text of all kernels that were compiled at once.
    """

    registers: int
    spills: int
    shared: int
    listing: str
    source: str


def compile_kernels(
    kernels: Mapping[str, str], architecture: str
) -> tuple[dict[str, NvidiaCode], dict[str, str]]:
    """Results, and errors of kernels that have none. All are compiled at once, if all can be."""
    try:
        return _compile_together(kernels, architecture), {}
    except (WgError, WgslError) as error:
        if len(kernels) == 1:
            return {}, {next(iter(kernels)): str(error)}
    results: dict[str, NvidiaCode] = {}
    errors: dict[str, str] = {}
    for name, text in kernels.items():
        compiled, failed = compile_kernels({name: text}, architecture)
        results |= compiled
        errors |= failed
    return results, errors


def _compile_together(kernels: Mapping[str, str], architecture: str) -> dict[str, NvidiaCode]:
    names = {f"kernel{number}": name for number, name in enumerate(kernels)}
    parts = [PRELUDE.read_text(encoding="utf-8")]
    parts += [print_module(parse_module(kernels[name]), key) for key, name in names.items()]
    source = "\n".join(parts)
    cubin, log = _compile(source, architecture)
    listings = _disassemble(cubin)
    return {
        names[key]: NvidiaCode(
            registers=int(registers),
            spills=_number(r"(\d+) bytes spill stores", before) // 4,
            shared=_number(r"(\d+) bytes smem", after),
            listing=listings[key],
            source=source,
        )
        for key, before, registers, after in _USED.findall(log)
    }


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


def _compile(source: str, architecture: str) -> tuple[bytes, str]:
    """The machine code and what the compiler said."""
    library, program = ctypes.CDLL(str(tools.nvidia_file(tools.NVRTC))), ctypes.c_void_p()
    options = (f"--gpu-architecture={architecture}", "--std=c++17", "--ptxas-options=-v")
    choices = [option.encode() for option in (*options, "-lineinfo")]
    given = (ctypes.c_char_p * len(choices))(*choices)
    code = source.encode()
    library.nvrtcCreateProgram(ctypes.byref(program), code, b"kernels.cu", 0, None, None)
    try:
        failed = library.nvrtcCompileProgram(program, len(choices), given)
        log = _result(library, "ProgramLog", program).rstrip(b"\0").decode(errors="replace")
        if failed:
            errors = [line for line in log.splitlines() if "error" in line]
            raise WgError(f"NVRTC: {errors[0] if errors else last_line(log)}")
        return _result(library, "CUBIN", program), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _result(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


def _disassemble(cubin: bytes) -> dict[str, str]:
    """The listing of each function."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cubin"
        file.write_bytes(cubin)
        command = [str(tools.nvdisasm()), "-c", "-g", str(file)]
        code, printed, said = run_worker("nvdisasm", command, {})
    if code:
        raise WgError(f"nvdisasm failed: {last_line(said)}")
    parts = _SECTION.split(printed)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
