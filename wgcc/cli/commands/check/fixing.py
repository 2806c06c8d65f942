"""`wgcc check --fix`: applies corrections of errors until none is left or none helps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wgcc.cli.commands.check.checking import Checked
from wgcc.cli.source_files import write_source
from wgcc.errors import Diagnostics
from wgcc.language_service.fixes import apply_edits, chosen_edits

# Corrections can uncover errors that have corrections; more rounds than this would be a cycle.
MOST_ROUNDS = 20


def fix_file(check: Callable[[], Checked]) -> tuple[Checked, int]:
    """The result after all corrections that helped are written, and how many were applied.

    A round of corrections that leaves as many errors or more is taken back. Warnings may be
    intended, so their corrections are for editors to offer.
    """
    result, count = check(), 0
    for _ in range(MOST_ROUNDS):
        edits = {
            Path(source.path): (source.text, apply_edits(source.text, changes), len(changes))
            for source, changes in chosen_edits(result.diagnostics.errors).items()
            if Path(source.path).is_file()
        }
        if not edits:
            break
        for path, (_, new, _) in edits.items():
            write_source(path, new)
        after = check()
        if not _is_better(after, result.diagnostics):
            for path, (old, _, _) in edits.items():
                write_source(path, old)
            return check(), count
        result, count = after, count + sum(changes for _, _, changes in edits.values())
    return result, count


def _is_better(after: Checked, before: Diagnostics) -> bool:
    """Fewer errors, or others: once a line parses, what is wrong with its meaning is reported."""
    old = {(item.code, item.message) for item in before.errors}
    new = {(item.code, item.message) for item in after.diagnostics.errors}
    return not after.problem and (len(new) < len(old) or not new & old)
