"""Step time against the network's rate as an SVG: both axes logarithmic, the legend in a column of its own beside the plot."""

from __future__ import annotations

import math
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 620, 46, 400  # of the plot itself


class Line(NamedTuple):
    name: str
    colour: str
    points: list[tuple[float, float]]  # (rate in Gbit/s, step in ms)
    dashed: bool = False


class Axis:
    """A logarithmic axis from pixel `begin` to pixel `end`."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.begin = low, begin
        self.scale = (end - begin) / math.log(high / low)

    def at(self, value: float) -> float:
        return self.begin + math.log(value / self.low) * self.scale


def ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten in [low, high]; with the values between where those are few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        found = [digit * 10.0**decade for decade in decades for digit in digits if low <= digit * 10.0**decade <= high]
        if len(found) >= 4:
            break
    return found


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def grid(x: Axis, y: Axis, rates: list[float], values: list[float]) -> list[str]:
    out = []
    for rate in rates:
        out.append(f'<line class="grid" x1="{x.at(rate):.1f}" y1="{TOP}" x2="{x.at(rate):.1f}" y2="{BOTTOM}"/>')
        out.append(text(x.at(rate), BOTTOM + 20, f"{rate:g}", "middle"))
    for value in values:
        out.append(f'<line class="grid" x1="{LEFT}" y1="{y.at(value):.1f}" x2="{RIGHT}" y2="{y.at(value):.1f}"/>')
        out.append(text(LEFT - 8, y.at(value) + 4, f"{value:g}", "end"))
    out.append(f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"/>')
    return out


def curve(line: Line, x: Axis, y: Axis) -> list[str]:
    places = [(x.at(rate), y.at(ms)) for rate, ms in line.points]
    dash = ' stroke-dasharray="7 5"' if line.dashed else ""
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    dots = [] if line.dashed else [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{line.colour}"/>' for a, b in places]
    return [f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"{dash}/>', *dots]


def legend(lines: list[Line]) -> list[str]:
    out = []
    for i, line in enumerate(lines):
        height = TOP + 14 + 24 * i
        dash = ' stroke-dasharray="7 5"' if line.dashed else ""
        out.append(f'<line x1="{RIGHT + 18}" y1="{height}" x2="{RIGHT + 48}" y2="{height}" stroke="{line.colour}" stroke-width="2"{dash}/>')
        out.append(text(RIGHT + 56, height + 4, line.name))
    return out


def rate_plot(title: str, lines: list[Line]) -> str:
    rates = sorted({rate for line in lines for rate, _ in line.points})
    steps = [ms for line in lines for _, ms in line.points]
    low, high = min(steps) * 0.85, max(steps) * 1.15
    x = Axis(rates[0] * 0.85, rates[-1] * 1.15, LEFT, RIGHT)
    y = Axis(low, high, BOTTOM, TOP)
    # The slowest at the left comes first, as in the plot.
    ordered = sorted(lines, key=lambda line: -line.points[0][1])
    body = [*grid(x, y, rates, ticks(low, high)), *[part for line in ordered for part in curve(line, x, y)], *legend(ordered),
            text(LEFT, 26, title, more=' style="font-weight:bold"'), text((LEFT + RIGHT) / 2, BOTTOM + 44, "rate of each host's link, Gbit/s", "middle"),
            text(0, 0, "median step, ms", "middle", f' transform="translate(20 {(TOP + BOTTOM) / 2:.0f}) rotate(-90)"')]
    style = "<style>text{font:13px sans-serif;fill:#222}.grid{stroke:#ddd}.frame{fill:none;stroke:#888}</style>"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">', style,
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *body, "</svg>", ""])
