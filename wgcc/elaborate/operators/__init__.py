"""Operators and indexing: from operands to nodes. They know no syntax beyond index items."""
