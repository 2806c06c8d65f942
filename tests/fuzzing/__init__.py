"""Texts that try to break the compiler: damaged programs, and programs the grammar makes."""
