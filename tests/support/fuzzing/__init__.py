"""Texts that try to break the compiler: damaged programs, and programs made from the grammar."""
