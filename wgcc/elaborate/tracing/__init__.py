"""The basis of operators and built-ins: sizes, values, scopes, the graph under construction."""
