"""Evaluates expressions, calls and statements, which appends nodes to the graph."""
