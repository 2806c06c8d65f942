"""Data that people bring: tables, arrays, pictures and text become arrays for a model's inputs.

The rules are in `wgcc/DATA.md`. JavaScript has the same ones; `tests/data_cases` holds both equal.
"""
