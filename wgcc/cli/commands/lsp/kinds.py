"""Kinds of names in the words of the protocol, which decide icons and colours."""

from __future__ import annotations

from lsprotocol.types import CompletionItemKind, SemanticTokensLegend, SymbolKind

from wgcc.language_service import names
from wgcc.language_service.outline import BUILT_IN, STANDARD_LAYER, TOKEN_TYPES

LIBRARY_KINDS = (BUILT_IN, STANDARD_LAYER, "keyword")

COMPLETION_KINDS = {
    names.DIM: CompletionItemKind.TypeParameter,
    names.SIZE: CompletionItemKind.TypeParameter,
    names.CONST: CompletionItemKind.Constant,
    names.DTYPE: CompletionItemKind.Struct,
    names.LAYER: CompletionItemKind.Class,
    names.MODEL: CompletionItemKind.Class,
    names.FUNCTION: CompletionItemKind.Function,
    names.ENTRY: CompletionItemKind.Method,
    names.IMPORT: CompletionItemKind.Module,
    names.OPTION: CompletionItemKind.Variable,
    names.PARAM: CompletionItemKind.Field,
    names.STATE: CompletionItemKind.Field,
    names.SUBMODULE: CompletionItemKind.Field,
    names.OPTIMIZER: CompletionItemKind.Field,
    names.LOCAL: CompletionItemKind.Variable,
    BUILT_IN: CompletionItemKind.Function,
    STANDARD_LAYER: CompletionItemKind.Class,
    "keyword": CompletionItemKind.Keyword,
    "setting": CompletionItemKind.Property,
    "path": CompletionItemKind.Reference,
}

SYMBOL_KINDS = {
    names.DIM: SymbolKind.TypeParameter,
    names.SIZE: SymbolKind.TypeParameter,
    names.CONST: SymbolKind.Constant,
    names.DTYPE: SymbolKind.Struct,
    names.LAYER: SymbolKind.Class,
    names.MODEL: SymbolKind.Class,
    names.FUNCTION: SymbolKind.Function,
    names.ENTRY: SymbolKind.Method,
    names.PARAM: SymbolKind.Field,
    names.STATE: SymbolKind.Field,
    names.SUBMODULE: SymbolKind.Field,
    names.OPTIMIZER: SymbolKind.Object,
    "test": SymbolKind.Event,
}

# A name of the library has the first modifier.
TOKEN_LEGEND = SemanticTokensLegend(sorted(set(TOKEN_TYPES.values())), ["defaultLibrary"])
