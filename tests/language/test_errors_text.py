"""How diagnostics are rendered, and "did you mean"."""

from __future__ import annotations

import pytest

from wgcc.errors import LONGEST_LINE, Diagnostics, Source, Span, render, render_run
from wgcc.spelling import did_you_mean


def place(source: Source, piece: str) -> Span:
    start = source.text.index(piece)
    return Span(source, start, start + len(piece))


def test_all_parts_of_a_report() -> None:
    source, library = Source("m.wg", "a = x @ w\n\n\nb = 1\n"), Source("std.wg", "layer L {\n")
    problem = Diagnostics().error("WG0412", "sizes differ", place(source, "@"))
    problem.also(place(source, "x"), "f32[2]").also(place(source, "w"), "f32[3]")
    problem.also(place(source, "b"), "far away").also(place(library, "L"), "defined here")
    problem.note("a note\nof two lines").help("transpose it")
    assert (
        render(problem)
        == """\
error[WG0412]: sizes differ
 --> m.wg:1:7
  |
1 | a = x @ w
  |     - ^ - f32[3]
  |     |
  |     f32[2]
...
4 | b = 1
  | - far away
 ::: std.wg:1:7
  |
1 | layer L {
  |       - defined here
  |
  = note: a note
          of two lines
  = help: transpose it"""
    )


def test_carets_stand_under_wide_characters_and_tabs() -> None:
    source = Source("m.wg", '\t"日本" + é́ + x')
    rendered = render(Diagnostics().error("WG0201", "unknown", place(source, "x")))
    assert rendered.splitlines()[-1] == "  | \t" + " " * 13 + "^"


def test_terminal_control_characters_are_not_printed() -> None:
    source = Source("m.wg", "a\x1b[31m\x00\u202e\udc80b")
    rendered = render(Diagnostics().error("WG0100", "odd \x07 text", place(source, "b")))
    assert rendered.replace("\n", "").isprintable()


def test_long_lines_are_cut_around_the_mark() -> None:
    source = Source("m.wg", "a + " * 1000 + "here" + " + b" * 1000)
    lines = render(Diagnostics().error("WG0201", "unknown", place(source, "here"))).splitlines()
    assert max(map(len, lines)) <= LONGEST_LINE + 10
    assert lines[-2].index("here") == lines[-1].index("^^^^")


def test_what_is_missing_at_the_end_of_a_long_line() -> None:
    source = Source("m.wg", "x" * 300)
    lines = render(Diagnostics().error("WG0101", "more", Span(source, 300, 300))).splitlines()
    assert lines[-1].rstrip().endswith("^")
    assert len(lines[-1].rstrip()) == len(lines[-2]) + 1


def test_a_run_is_in_order_and_has_an_end() -> None:
    source, diagnostics = Source("m.wg", "abc\n" * 40), Diagnostics()
    assert render_run(diagnostics) == ""
    diagnostics.warning("WG0901", "late", Span(source, 8, 9))
    assert render_run(diagnostics).endswith("\n\n1 warning")
    diagnostics.error("WG0201", "early", Span(source, 0, 1))
    rendered = render_run(diagnostics)
    assert rendered.index("early") < rendered.index("late")
    assert rendered.endswith("\n\n1 error, 1 warning; nothing was written")
    for line in range(30):
        diagnostics.error("WG0201", "many", Span(source, 4 * line + 1, 4 * line + 2))
    assert "... and 12 more (use --all-errors)" in render_run(diagnostics)
    assert "more (use" not in render_run(diagnostics, None)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("releu", ["relu"]),
        ("weightdecay", ["weight_decay"]),
        ("Softmax", ["softmax"]),
        ("tahn", ["tanh"]),
        ("ab", []),
        ("nothing_alike", []),
        ("relu", []),
    ],
)
def test_did_you_mean(word: str, meant: list[str]) -> None:
    options = ["relu", "tanh", "softmax", "log_softmax", "weight_decay", "lr", "abs"]
    assert did_you_mean(word, options) == meant
