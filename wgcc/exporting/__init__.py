"""The exporters share this package: it writes entries as ops that other formats have."""
