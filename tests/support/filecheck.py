"""Expectations written as comments beside the input, like LLVM's FileCheck.

    // check: text     the text is on a later line than the last match
    // next: text      … on the next line
    // same: text      … on the same line, further right
    // not: text       the text is not between the matches around it
    // count N: text   the text is on exactly N lines of the whole output

Several spaces match one. `{{regex}}` matches a regular expression, `[[name:regex]]` names what it
matched, `[[name]]` matches the same text again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

DIRECTIVE = re.compile(r"//\s*(check|next|same|not|count \d+):\s?(.*\S)")


def filecheck(source: str, output: str) -> None:
    """Check `output` against the directives in the comments of `source`."""
    directives = DIRECTIVE.findall(source)
    assert directives, "the input holds no `// check:` comment"
    cursor = _Cursor([" ".join(line.split()) for line in output.splitlines()])
    for kind, text in directives:
        if kind.startswith("count"):
            cursor.count(int(kind.split()[1]), text)
        elif kind == "not":
            cursor.forbidden.append(text)
        else:
            cursor.advance(kind, text)
    cursor.refuse_forbidden(len(cursor.lines))


@dataclass
class _Cursor:
    lines: list[str]
    line: int = -1  # of the last match
    column: int = 0  # after the last match
    names: dict[str, str] = field(default_factory=dict)
    forbidden: list[str] = field(default_factory=list)

    def advance(self, kind: str, text: str) -> None:
        for number in self._candidates(kind):
            start = self.column if kind == "same" else 0
            match = self._pattern(text).search(self.lines[number], start)
            if match:
                self.refuse_forbidden(number)
                self.names.update(match.groupdict())
                self.line, self.column = number, match.end()
                return
        raise AssertionError(
            f"{kind}: {text}\nnot found after line {self.line + 1} of\n{self._text}"
        )

    def refuse_forbidden(self, stop: int) -> None:
        for text in self.forbidden:
            pattern = self._pattern(text)
            found = [line for line in self.lines[self.line + 1 : stop] if pattern.search(line)]
            assert not found, f"not: {text}\nstands in\n{found[0]}\nof\n{self._text}"
        self.forbidden = []

    def count(self, expected: int, text: str) -> None:
        pattern = self._pattern(text)
        found = sum(1 for line in self.lines if pattern.search(line))
        assert found == expected, f"count {expected}: {text}\nfound {found} times in\n{self._text}"

    def _candidates(self, kind: str) -> range:
        first = self.line if kind == "same" else self.line + 1
        stop = len(self.lines) if kind == "check" else min(first + 1, len(self.lines))
        return range(max(first, 0), stop)

    def _pattern(self, text: str) -> re.Pattern[str]:
        parts = re.split(r"(\{\{.*?\}\}|\[\[.*?\]\])", " ".join(text.split()))
        return re.compile("".join(map(self._part, parts)))

    def _part(self, part: str) -> str:
        inner = part[2:-2]
        if part.startswith("{{"):
            return f"(?:{inner})"
        if not part.startswith("[["):
            return re.escape(part)
        if ":" in inner:
            name, regex = inner.split(":", 1)
            return f"(?P<{name}>{regex})"
        assert inner in self.names, f"[[{inner}]] is used before it is named"
        return re.escape(self.names[inner])

    @property
    def _text(self) -> str:
        return "\n".join(self.lines)
