"""Answers what editors ask about a program: functions from texts to results.

The language server (`wgcc lsp`) and a page are two callers of the same functions. Everything here
is the compiler's own result, looked up by position; nothing is parsed or checked a second way.
"""
