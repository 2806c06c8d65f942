"""Names of tensors: to which module each belongs, and which of the module's tensors it is.

`blocks.0.attn.wq.w` and `model.layers.0.self_attn.q_proj.weight` are read alike. A module is the
tensors of one layer, in the model or in the file. PyTorch's attention stores queries, keys and
values in one tensor; its thirds are modules, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from wgcc.importing.transforms import AS_IS, Range, Shape, Transform, without_ones

NUMBER = "#"
WEIGHT, BIAS, MEAN, VAR, SINGULAR = "weight", "bias", "mean", "var", "singular"
# State that files of weights have: of batch norm, and the vectors of spectral norm.
STATISTICS = (MEAN, VAR, SINGULAR)
_KINDS = {
    "weight": WEIGHT, "kernel": WEIGHT, "gamma": WEIGHT, "scale": WEIGHT, "w": WEIGHT, "g": WEIGHT,
    "bias": BIAS, "beta": BIAS, "b": BIAS, "mean": MEAN, "var": VAR, "singular": SINGULAR,
}  # fmt: skip
# Words that do not help to identify a tensor.
_EMPTY = {"module", "model", "transformer", "backbone", "net", "network", "orig", "mod"}
# Tensors that no model needs: counters and masks of PyTorch, tables that are computed, the state of
# wgcc's own optimizers.
_NEVER_NEEDED = re.compile(
    r".*num_batches_tracked|.*inv_freq|.*position_ids|.*masked_bias|(opt|rng)/.*"
)

# Spellings of the same thing in different frameworks. Each rule applies to the result of those
# before it; `_` separates the words of a component, also before a number (`conv1` is `conv_1`).
_SPELLINGS = (
    (r"num_batches_tracked", ""),
    (r"(?:running|run|moving)_(mean|var)(?:iance)?", r"\1"),
    (r"variance", "var"),
    (r"in_proj(?=_(?:weight|bias)$)", "qkv"),
    (r"lora_(a|b)", r"lora\1"),
    # Weights of which PyTorch stores parts: weight_norm, and spectral_norm with its vectors.
    (r"parametrizations\.weight\.original_0", "weight_g"),
    (r"parametrizations\.weight\.original_1", "weight_v"),
    (r"parametrizations\.weight\.original|weight_orig", "weight"),
    (r"parametrizations\.weight\.0\._(u|v)", r"singular_\1"),
    # Cells of recurrent networks: input to hidden, hidden to hidden; wgcc has a list of them.
    (r"cells\.(\d+)\.(weight|bias)_(ih|hh)", r"\2_\3_l_\1"),
    (r"back\.(\d+)\.(weight|bias)_(ih|hh)", r"\2_\3_l_\1_reverse"),
    (r"(w|b)_x(?:_?h)?$", r"\1_ih"),
    (r"(w|b)_h$", r"\1_hh"),
    (r"[ix]_2_h", "ih"),
    (r"h_2_h", "hh"),
    (r"(ih|hh)_l", r"\1"),
    (r"conv_[123]_?d", "conv"),
    # Embeddings.
    (r"wpe|embed_positions?|pos(?:ition(?:al)?)?_(?:emb[a-z]*|enc[a-z]*)|positions?", "pos"),
    (r"wte|embed_tokens?|(?:tok|token|word)_emb[a-z]*|emb|embed|embeddings?|tokens?|vocab", "tok"),
    # Attention.
    (r"multi_head_attention|grouped_query_attention", "attn"),
    (r"self_attn|self_attention|attention|multi_?head_attn|mha", "attn"),
    (r"attn\.self", "attn"),
    (r"attn\.in_proj", "attn.qkv"),
    (r"c_attn|query_key_value|(?:to_|w_?)?qkv(?:_proj)?", "qkv"),
    (r"(?:to_|w_?)?(?:q|query|queries)(?:_proj|_lin)?", "q"),
    (r"(?:to_|w_?)?(?:k|key|keys)(?:_proj|_lin)?", "k"),
    (r"(?:to_|w_?)?(?:v|value|values)(?:_proj|_lin)?", "v"),
    (r"attn\.output\.layer_?norm", "norm_1"),
    (r"attn\.(?:c_proj|proj|projection|output\.dense|dense|output|out)", "attn.o"),
    (r"o_proj|out_proj|out_lin|w_?o|to_out(?:\.0)?", "o"),
    # The feed-forward part.
    (r"feed_forward\.w_1", "mlp.gate"),
    (r"feed_forward\.w_2", "mlp.down"),
    (r"feed_forward\.w_3", "mlp.up"),
    (r"feed_?forward|ffn|ff|swi_?glu", "mlp"),
    (r"intermediate\.dense|dense_h_to_4_?h", "mlp.up"),
    (r"dense_4_?h_to_h", "mlp.down"),
    (r"((?:layers?|blocks?|h)\.\d+)\.(?:fc|linear|lin)_1", r"\1.mlp.up"),
    (r"((?:layers?|blocks?|h)\.\d+)\.(?:(?:fc|linear|lin)_2|output\.dense)", r"\1.mlp.down"),
    (r"mlp\.(?:c_fc|fc_in|(?:fc|linear|lin)_1)", "mlp.up"),
    (r"mlp\.(?:c_proj|fc_out|(?:fc|linear|lin)_2)", "mlp.down"),
    # Norms: 1 before attention, 2 before the feed-forward part.
    (r"(?:layer_?|rms_?|batch_?|group_?|instance_?)norm(?:_[123]_?d)?|ln|bn|rms", "norm"),
    (r"post_attn_norm|norm_after|mlp_norm|(?<=\d\.)(?:output\.|final_)norm", "norm_2"),
    (r"input_norm|norm_before|attn_norm|sa_norm", "norm_1"),
    (r"final_norm|norm_(?:f|final|last)|last_norm", "norm"),
    # The rest.
    (r"([a-z]+)_proj", r"\1"),
    (r"lm_head|classifier|logits|score|^output", "head"),
    (r"layers?|blocks?|stages?|h(?=\.\d)", "block"),
)
_RULES = tuple((re.compile(rf"(?<![a-z0-9])(?:{a})(?![a-z0-9])"), b) for a, b in _SPELLINGS)


@dataclass(frozen=True, slots=True)
class TensorName:
    """`words` name the module, with `#` for each of its `numbers`; `kind` is WEIGHT, … or ""."""

    words: tuple[str, ...]
    numbers: tuple[int, ...]
    kind: str


def read_name(name: str, shape: Shape) -> TensorName:
    """The shape decides between weight and bias if the name does not show which it is."""
    words, kind = _read(name)
    axes = len(without_ones(shape))
    if kind == BIAS and axes > 1:
        kind = ""  # a mask, or one of many matrices `a`, `b`, `c`
        words = (*words, "b")
    if kind == WEIGHT and axes == 1 and words[-1:] in (("u",), ("v",)):
        kind = SINGULAR  # `weight_u`, `weight_v`
    kind = kind or (WEIGHT if axes > 1 else "")
    plain = tuple(NUMBER if word.isdigit() else word for word in words)
    return TensorName(plain, tuple(int(word) for word in words if word.isdigit()), kind)


def worth_reading(names: Iterable[str]) -> list[str]:
    return [name for name in names if not _NEVER_NEEDED.fullmatch(name)]


def plain_words(name: str) -> list[str]:
    """The words of a name as they are written: `encoder.bn1.weight` → encoder, bn, 1, weight"""
    return re.findall(r"[a-z]+|[0-9]+", name.lower())


def without_numbers(name: str) -> str:
    """`net.10.weight` → `net.#.weight`"""
    return re.sub(r"[0-9]+", NUMBER, name)


def module_path(name: str) -> str:
    """`fc.weight` → `fc`"""
    return name.rpartition(".")[0]


def last_word(name: str) -> str:
    """`fc.weight_1` → `weight_1`"""
    return name.rpartition(".")[2]


def is_cell(name: str) -> bool:
    """A parameter of the standard recurrent layers, whose gates are in PyTorch's order."""
    return last_word(name) in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def module_word(name: str) -> str:
    """`h.0.attn.c_proj.weight` → `c_proj`"""
    return last_word(module_path(name))


def in_order(name: str) -> tuple[tuple[int, str], ...]:
    """A sorting key that puts `h.2` before `h.10`."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((int(part), "") if "0" <= part[0] <= "9" else (-1, part) for part in parts)


@lru_cache(maxsize=16384)
def _read(name: str) -> tuple[tuple[str, ...], str]:
    """All words of a name that help to identify it, with numbers, and the kind."""
    text = _normalise(name)
    module, _, leaf = text.rpartition(".")
    words, kind = _kind(plain_words(leaf))
    words = [*plain_words(module), *words]
    kept_words: list[str] = []
    for word in [word for word in words if word not in _EMPTY] or words[-1:]:
        repeated = bool(kept_words) and kept_words[-1] == word and not word.isdigit()
        if not repeated:
            kept_words.append(word[:9] if word.isdigit() else word)
    return tuple(kept_words), kind


def _normalise(name: str) -> str:
    """`layers.0.selfAttn.qProj.weight` → `block.0.attn.q.weight`"""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    text = re.sub(r"[^a-z0-9.]+", "_", text)
    text = re.sub(r"(?<=[a-z])(?=[0-9])|(?<=[0-9])(?=[a-z])", "_", text)
    for pattern, meaning in _RULES:
        text = pattern.sub(meaning, text)
    return text


def _kind(words: list[str]) -> tuple[list[str], str]:
    """`weight_ih` → ["ih"], WEIGHT; whole words are tried before single letters."""
    for letters in (False, True):
        for at in (-1, 0):
            if words and words[at] in _KINDS and (len(words[at]) == 1) == letters:
                kind = _KINDS[words[at]]
                return words[:-1] if at else words[1:], kind
    return words, ""


Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorPart:
    """A tensor, or the rows or columns of it that `cut` selects; `shape` is that of the part."""

    tensor: str
    shape: Shape
    kind: str
    cut: Transform = AS_IS

    @property
    def sizes(self) -> Shape:
        """The sizes of its axes, sorted: the same for every order of the axes."""
        return tuple(sorted(without_ones(self.shape)))


@dataclass(eq=False, slots=True)
class ModuleTensors:
    """`words` and `numbers` of its name (see `TensorName`), and its tensors."""

    words: tuple[str, ...]
    numbers: Numbers
    parts: list[TensorPart] = field(default_factory=list)
    is_third: bool = False

    @property
    def main(self) -> TensorPart:
        """The weight, or the first tensor if there is none."""
        return next((part for part in self.parts if part.kind == WEIGHT), self.parts[0])

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(word for word in self.words if word != NUMBER)

    @property
    def spelling(self) -> list[str]:
        """All words as they are written."""
        return plain_words(self.main.tensor)

    @property
    def in_list(self) -> bool:
        return any(word.isdigit() for word in self.main.tensor.split("."))

    @property
    def is_norm_of_batches(self) -> bool:
        return any(part.kind in STATISTICS for part in self.parts)

    @property
    def form(self) -> tuple[str, Shape, bool]:
        """Modules with the same form can only be distinguished by their names."""
        return self.main.kind, self.main.sizes, self.is_norm_of_batches

    def like(self, part: TensorPart) -> list[TensorPart]:
        """The tensors that another module's tensor may be; the kind is not always known."""
        same = [own for own in self.parts if own.kind == part.kind]
        return same or [own for own in self.parts if "" in (own.kind, part.kind)]


def modules(shapes: Mapping[str, Shape]) -> list[ModuleTensors]:
    """All modules of a model or file, in order of their first tensors."""
    by_name: dict[tuple[tuple[str, ...], Numbers], ModuleTensors] = {}
    for tensor, shape in shapes.items():
        name = read_name(tensor, shape)
        module = by_name.setdefault(
            (name.words, name.numbers), ModuleTensors(name.words, name.numbers)
        )
        module.parts.append(TensorPart(tensor, shape, name.kind))
    return [one for module in by_name.values() for one in _separate(module)]


def _separate(module: ModuleTensors) -> list[ModuleTensors]:
    """Modules whose names mean the same (`bn`, `ln`) are distinguished by their spelling."""
    kinds = [part.kind for part in module.parts]
    if len(set(kinds)) == len(kinds):
        return [module]
    by_path: dict[str, list[TensorPart]] = {}
    for part in module.parts:
        by_path.setdefault(module_path(part.tensor), []).append(part)
    return [ModuleTensors(module.words, module.numbers, parts) for parts in by_path.values()]


def thirds(whole: Iterable[ModuleTensors]) -> list[ModuleTensors]:
    """Queries, keys and values as modules, where one tensor stores all three."""
    return [
        ModuleTensors(
            tuple(word if old == "qkv" else old for old in module.words),
            module.numbers,
            [third for part in module.parts if (third := _third(part, at)) is not None],
            is_third=True,
        )
        for module in whole
        if "qkv" in module.words and all(_third(part, 0) for part in module.parts)
        for at, word in enumerate("qkv")
    ]


def _third(part: TensorPart, at: int) -> TensorPart | None:
    """[3 outputs, inputs] in PyTorch's Linear, [inputs, 3 outputs] in GPT-2's Conv1D."""
    shape = part.shape
    axis = 1 if len(shape) == 2 and shape[1] == 3 * shape[0] else 0
    if not shape or shape[axis] % 3:
        return None
    size = shape[axis] // 3
    place: Range = (at * size, (at + 1) * size)
    cut = Transform(columns=place) if axis else Transform(rows=place)
    return TensorPart(part.tensor, cut.shape(shape) or (), part.kind, cut)
