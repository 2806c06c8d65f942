"""`wgcc import MODEL.gguf -o FOLDER`, and the same for folders of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from wgcc.cli.printing import plural, say, show_json

# Options that a language model has, beside -o and --json.
OWN = ("sizes", "no_compare", "quantise")


def import_decoder(
    path: Path, output: Path | None, options: Mapping[str, Any], as_json: bool
) -> None:
    for name, value in options.items():
        if name not in OWN and value not in (None, (), False, {}):
            raise click.UsageError(f"--{name.replace('_', '-')} is not for language models")
    if output is None:
        raise click.UsageError("give a folder for the model: -o FOLDER")
    from wgcc.bundle.folder import is_free, write_new
    from wgcc.from_gguf.folder import import_model, record

    if not is_free(output):
        raise click.UsageError(f"{output} is there already: give a new or an empty folder")
    compares, rules = not options["no_compare"], options["quantise"]
    imported = import_model(path, _sizes(options["sizes"]), compares, rules)
    write_new(imported.files, output)
    if as_json:
        show_json(record(output, imported))
        return
    for note in imported.notes:
        say(note)
    if imported.difference is not None:
        text = "scores of the WebAssembly twin are those of the file, evaluated in numpy, to"
        say(f"{text} {imported.difference:.1g} of the largest")
    count = plural(imported.parameters, "parameter")
    say(f'{output}: {count}; try wgcc run {output / "bundle"} decode --prompt "Once upon a time"')


def _sizes(sizes: Mapping[str, Any]) -> dict[str, int]:
    for name, number in sizes.items():
        if not isinstance(number, int):
            raise click.UsageError(f"--set {name}={number:g}: a size is a whole number")
    return dict(sizes)
