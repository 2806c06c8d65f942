"""Long trials of reliability, started by `python tests/reliability.py NAME`."""
