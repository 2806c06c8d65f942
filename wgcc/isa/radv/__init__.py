"""Compiles SPIR-V for Radeon cards that are not there, with the driver RADV of Mesa."""
