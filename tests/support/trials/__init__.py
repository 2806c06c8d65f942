"""Long reliability trials, started by `python tests/reliability NAME`."""
