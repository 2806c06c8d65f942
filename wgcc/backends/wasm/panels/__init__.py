"""Matrix products and attention over packed panels."""
