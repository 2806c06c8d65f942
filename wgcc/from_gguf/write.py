"""The text of an imported decoder, with the layers that its weights need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from wgcc.from_gguf.architecture import Decoder

ACTIVATIONS = {
    "silu": "silu({})",
    "relu": "relu({})",
    "gelu": "gelu({})",
    "gelu_tanh": "gelu({}, approximate = true)",
}


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of a sequence, of the cache, and of a chunk of the prompt."""

    sequence: int = 64
    cache: int = 1024
    chunk: int = 16


def model_text(
    decoder: Decoder,
    layers: Mapping[str, str],
    title: str,
    file: str,
    sizes: TokenCounts,
    vocabulary: str = "",
) -> str:
    """`layers`: for each role, such as `attn_q`, the layer that holds its weights."""

    def layer(role: str, inputs: str, outputs: str, has_bias: bool) -> str:
        return layer_text(layers[role], inputs, outputs, has_bias)

    def turn(norm: str, positions: str, limit: str = "") -> str:
        normed = f" |> {norm}" if decoder.has_query_norm else ""
        if not decoder.is_rotary:
            return normed
        part = "part_" if decoder.rotary < decoder.head_size else ""
        if decoder.scaling:
            return f"{normed} |> {part}scaled_rope({positions}, factors)"
        base = "" if part else ", base = theta"
        rest = f", limit = {limit}" if limit else ""
        return f"{normed} |> {part}rope({positions}{base}{rest})"

    return render(
        "decoder.wg.jinja",
        d=decoder,
        title=title,
        file=file,
        model=model_name(title),
        theta=float_text(decoder.theta),
        eps=float_text(decoder.eps),
        window=f", window = {decoder.window}" if decoder.window else "",
        activate=ACTIVATIONS[decoder.activation].format,
        table=table_text(layers["token_embd"]),
        after_table=lambda positions: _after_table(decoder, positions),
        scores=_scores(decoder, layers["token_embd"]),
        vocabulary=vocabulary,
        layer=layer,
        turn=turn,
        **{name: getattr(sizes, name) for name in TokenCounts.__dataclass_fields__},
    )


def render(template: str, **values: Any) -> str:
    """The text of a program."""
    environment = Environment(
        undefined=StrictUndefined, line_statement_prefix="//%", keep_trailing_newline=True
    )
    text = files(__package__).joinpath(template).read_text(encoding="utf-8")
    return environment.from_string(text).render(**values)


def layer_text(layer: str, inputs: str, outputs: str, has_bias: bool) -> str:
    """`Q8Linear(group = 16)` → `Q8Linear[D, F](group = 16, bias = true)`"""
    name, _, options = layer.partition("(")
    given = [options.removesuffix(")")] if options else []
    # `Linear` has a bias unless it is told otherwise, packed layers have none.
    if has_bias != (name == "Linear"):
        given.append(f"bias = {str(has_bias).lower()}")
    return f"{name}[{inputs}, {outputs}]" + (f"({', '.join(given)})" if given else "")


def table_text(layer: str) -> str:
    name, _, options = layer.partition("(")
    return f"{name}[V, D]" + (f"({options}" if options else "")


def model_name(title: str) -> str:
    """A name of the language: `SmolLM2 135M` → `SmolLM2_135M`."""
    name = re.sub(r"\W+", "_", title, flags=re.ASCII).strip("_")
    return name[:1].upper() + name[1:] if name[:1].isalpha() else "Decoder"


def float_text(value: float) -> str:
    """As people write it: `1e-5`, not `1e-05`."""
    return re.sub(r"e([+-])0", r"e\1", repr(float(value))).replace("e+", "e")


def _after_table(decoder: Decoder, positions: str) -> str:
    if decoder.scales_table:
        return " * D ** 0.5"
    return f" + positions({positions})" if decoder.has_positions else ""


def _scores(decoder: Decoder, table: str) -> str:
    if not decoder.is_tied:
        return "head(x)"
    return "x @ transpose(tok.w)" if table == "Embedding" else "tok.scores(x)"
