"""The HTML documentation: built from the Markdown pages of the repository by `dev.py site`."""
