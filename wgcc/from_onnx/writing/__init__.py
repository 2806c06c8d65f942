"""From statements to the text of a model and its weights."""
