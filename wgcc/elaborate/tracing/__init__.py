"""What operators and built-ins work with: sizes, values, scopes, the graph under construction."""
