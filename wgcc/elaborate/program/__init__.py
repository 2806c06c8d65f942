"""Whole files and models: loading, entries, `test` blocks, what nothing uses, public names."""
