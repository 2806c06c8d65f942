"""Rules that every file of the project keeps; `python3 dev.py lint` checks them all.

A check is a function from a `Tree` to its problems. A problem has a file, a line and a sentence.
"""
