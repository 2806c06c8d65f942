"""The commands of `wgcc`, a file or folder each: reads options, calls the compiler, and reports."""
