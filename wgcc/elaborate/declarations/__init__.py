"""Declarations of a program: types, constants, layers with their parameters, optimizers."""
