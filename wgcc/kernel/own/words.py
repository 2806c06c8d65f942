"""The words of WGSL that functions of users may not use, and the functions that they may call."""

from __future__ import annotations

from wgcc.kernel.types import FLOATS, SCALARS

# What is wrong with a token, wherever it stands.
REFUSED = {
    "@": "attributes are for whole kernels, and this is a function that kernels call",
    "switch": "`switch` is not supported: write `if` and `else if`",
    "loop": "`loop` may run for ever: write `for (var i = 0; i < 20; i++)`",
    "while": "`while` may run for ever: write `for (var i = 0; i < 20; i++)`",
    "break": "`break` is not supported: change variables only under an `if`",
    "continue": "`continue` is not supported: put the rest of the loop under an `if`",
    "continuing": "`continuing` is not supported",
    "discard": "`discard` is for drawing",
    "struct": "only scalars are supported, so there are no structs",
    "alias": "`alias` is not supported: write the type itself",
    "override": "`override` is not supported: write `const`",
    "enable": "`enable` is not supported: scalars are f32, i32, u32 and bool",
    "requires": "`requires` is not supported",
    "diagnostic": "`diagnostic` is not supported",
    "const_assert": "`const_assert` is not supported",
}
# Only these have a meaning inside a function.
KINDS = ("f32", "i32", "u32", "bool")

# Functions of WGSL that each machine computes in its own way are replaced by those of wgcc, which
# give the same everywhere: the name, and the files of `wgcc/ops/wgsl/` that have it.
REPLACED: dict[str, tuple[str, tuple[str, ...]]] = {
    "acos": ("wg_acos", ("acos", "asin")),
    "asin": ("wg_asin", ("asin",)),
    "atan": ("wg_atan", ("atan",)),
    "atan2": ("wg_atan2", ("atan", "atan2")),
    "cos": ("wg_cos", ("cos", "turn")),
    "cosh": ("wg_cosh", ("cosh",)),
    "exp2": ("wg_exp2", ("exp2", "log", "pow")),
    "log": ("wg_log", ("log",)),
    "log2": ("wg_log2", ("log", "log2")),
    "mix": ("wg_mix", ("mix",)),
    "pow": ("wg_pow", ("log", "pow")),
    "saturate": ("wg_saturate", ("saturate", "max", "min")),
    "sin": ("wg_sin", ("sin", "turn")),
    "sinh": ("wg_sinh", ("expm1", "sinh")),
    "smoothstep": ("wg_smoothstep", ("smoothstep",)),
    "step": ("wg_step", ("step",)),
    "tan": ("wg_tan", ("tan", "turn")),
    "tanh": ("wg_tanh", ("tanh",)),
}
# The same for floats alone: NaN stays NaN.
EXTREMES = {"max": ("wg_max", ("max",)), "min": ("wg_min", ("min",))}
# How many arguments a function takes, and of what elements.
_OF_ONE_FLOAT = """
    acos asin atan ceil cos cosh exp exp2 floor fract inverseSqrt log log2 round saturate sin sinh
    sqrt tan tanh trunc
"""
FUNCTIONS: dict[str, tuple[int, tuple[str, ...]]] = {
    **dict.fromkeys(_OF_ONE_FLOAT.split(), (1, (*FLOATS, "int"))),
    **dict.fromkeys(("atan2", "pow", "step"), (2, (*FLOATS, "int"))),
    **dict.fromkeys(("fma", "mix", "smoothstep"), (3, (*FLOATS, "int"))),
    **dict.fromkeys(("abs", "sign"), (1, tuple(kind for kind in SCALARS if kind != "bool"))),
    **dict.fromkeys(("min", "max"), (2, tuple(kind for kind in SCALARS if kind != "bool"))),
    "clamp": (3, tuple(kind for kind in SCALARS if kind != "bool")),
}

# Words that WGSL, or C++ for CUDA, keeps for itself.
_RESERVED = """
    alias break case const const_assert continue continuing default diagnostic discard else enable
    false fn for if let loop override requires return struct switch true var while NULL Self
    abstract active alignas alignof as asm asm_fragment async attribute auto await become bf16 bool
    cast catch char class co_await co_return co_yield coherent column_major common compile
    compile_fragment concept const_cast consteval constexpr constinit crate debugger decltype
    delete demote demote_to_helper do double dynamic_cast enum explicit export extends extern
    external f16 f32 f64 fallthrough filter final finally float friend from fxgroup get goto
    groupshared highp i32 i64 impl implements import inline instanceof int interface layout long
    lowp macro macro_rules match mediump meta mod module move mut mutable namespace new nil noexcept
    noinline nointerpolation noperspective null nullptr of operator package packoffset partition
    pass patch pixelfragment precise precision premerge priv protected pub public readonly ref
    regardless register reinterpret_cast require resource restrict self set shared short signed
    sizeof smooth snorm static static_assert static_cast std subroutine super target template this
    thread_local throw trait try type typedef typeid typename typeof u32 u64 unless unorm unsafe
    unsigned unsized use using varying virtual void volatile wchar_t wgsl where with writeonly yield
    array atomic bitcast mat2x2 ptr sampler select vec2 vec3 vec4 vec2f vec3f vec4f vec2u vec3u
    vec4u vec2i vec3i vec4i main
"""
RESERVED = frozenset(_RESERVED.split())
