"""Fusion decides which values are materialised, and which of them share a kernel."""
