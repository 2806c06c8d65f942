"""Turns statements into the text of a model and its weights."""
