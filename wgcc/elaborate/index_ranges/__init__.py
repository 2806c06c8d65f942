"""Finds the numbers that indices can be, and those that inputs may therefore hold."""
