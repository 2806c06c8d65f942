"""The workbench: a page that checks, compiles, shows and trains models, as static files.

`wire.py` is the part of the compiler that runs in the page; the other modules write the files.
"""
