"""Weights from elsewhere: which tensor of a file is which parameter, and how it is stored."""
