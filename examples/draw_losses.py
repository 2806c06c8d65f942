"""Plots the losses that a training run logged (`fit(log=…)`, `wgcc train --log`) as SVG.

python examples/draw_losses.py loss.jsonl curve.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 640, 280, 56, 36, 16, 16
# Colours that can be distinguished on white and on black.
COLOURS = {"loss": "#3b82f6", "eval_loss": "#f97316"}
NAMES = {"loss": "training loss", "eval_loss": "test loss"}

Points = list[tuple[float, float]]


def main(log: str, picture: str) -> int:
    reports = [json.loads(line) for line in Path(log).read_text(encoding="utf-8").splitlines()]
    curves = {
        name: [(r["step"], r[name]) for r in reports if name in r]
        for name in COLOURS
        if any(name in r for r in reports)
    }
    Path(picture).write_text(svg(curves), encoding="utf-8")
    return 0


def svg(curves: dict[str, Points]) -> str:
    points = [point for curve in curves.values() for point in curve]
    steps, top = max(step for step, _ in points), nice(max(loss for _, loss in points))

    def place(step: float, loss: float) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / steps
        y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - loss / top)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#808080" stroke-linejoin="round">'
    ]
    for fifth in range(6):
        step, loss = steps * fifth / 5, top * fifth / 5
        x, y = place(step, loss).split(",")
        parts += [
            f'<path d="M{LEFT},{y}H{WIDTH - RIGHT}" stroke="#808080" stroke-opacity="0.3"/>',
            f'<text x="{LEFT - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{loss:.3g}</text>',
            f'<text x="{x}" y="{HEIGHT - 14}" text-anchor="middle">{step:.0f}</text>',
        ]
    for at, (name, curve) in enumerate(curves.items()):
        line = " ".join(place(*point) for point in curve)
        parts += [
            f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>',
            f'<text x="{WIDTH - RIGHT - 8}" y="{TOP + 16 + 18 * at}" text-anchor="end" '
            f'fill="{COLOURS[name]}">{NAMES[name]}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def nice(number: float) -> float:
    """The next of 1, 2, 3, 5 times a power of ten."""
    power = 10.0 ** (len(f"{int(number)}") - 1) if number >= 1 else 0.1
    return next(f * power for f in (1, 2, 3, 5, 10) if f * power >= number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
