"""`wgcc accept`: makes a bundle whose kernels or plan were edited by hand run again."""

from __future__ import annotations

from pathlib import Path

import click

from wgcc.cli.failures import failures
from wgcc.cli.options import BundleFolder, json_option
from wgcc.cli.printing import say, show_json


@click.command("accept")
@click.argument("bundle", type=BundleFolder())
@json_option
def command(bundle: Path, as_json: bool) -> None:
    """Accept what was edited by hand in BUNDLE: kernels/*.wgsl and plan.json.

    Runtimes refuse a bundle whose files differ from the digests in its plan. This renews the
    digests, also in the files for the web, and records in the plan what was edited: load, show and
    verify then say so. The WebAssembly twin stays as it was built: it does not have the edits.
    """
    from wgcc.bundle.edited import accept
    from wgcc.bundle.folder import check_folder, write_files

    with failures():
        check_folder(bundle)
        files, names = accept(bundle)
        write_files(files, bundle)
    if as_json:
        show_json({"bundle": str(bundle), "edited": names})
    elif not names:
        say("nothing was edited: all files are as they were built", style="good")
    else:
        say(f"accepted, edited by hand: {', '.join(names)}", style="good")
        say(f"to test it on a GPU: wgcc verify {bundle} --device webgpu")
