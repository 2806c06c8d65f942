"""Which numbers indices can be, and which numbers inputs may therefore hold."""
