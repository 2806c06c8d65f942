"""What editors ask about a program: pure functions from texts to results, without input or output.

The language server (`wgcc lsp`) and a page are two callers of the same functions. Everything here
is the compiler's own result, looked up by position; nothing is parsed or checked a second way.
"""
