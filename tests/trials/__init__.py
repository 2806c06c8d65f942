"""Long reliability trials, started by `python tests/reliability.py NAME`."""
