"""What a program declares: types, constants, layers with their parameters, optimizers."""
