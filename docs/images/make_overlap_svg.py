#!/usr/bin/env python3
"""Draws a few steps of a run from its timeline: what each rank computes, which buckets are on their way, where it waits.

    weft run --hosts a,b -- weft train ... --trace --name overlap
    docs/images/make_overlap_svg.py runs/overlap/trace/trace.rank_*.json --steps 20-21 > docs/images/overlap.svg

docs/images/zero_gather.svg is stage 2 of a GPT of 17M parameters (--dim 384 --layers 6 --heads 6 --vocab 8192 --seq 64 --micro-batch 8) with
buckets of 2,000,000 elements, one rank on each host of `tools/netlab with 2 --rate 1gbit`.

Buckets that are on their way at the same time lie below each other. Files of several hosts fit together only where those share a clock, as
the hosts of tools/netlab do.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP = 1100, 150, 1080, 74
ROW, LANE, GAP, BETWEEN_RANKS = 26, 12, 5, 18
COLOURS = {"data": "#b6bcc4", "forward": "#5b8def", "backward": "#2f5fbf", "optimizer": "#7d5fb2", "reduce": "#e08a2e", "gather": "#2a9d6f",
           "exposed_wait": "#c8372d"}
NAMES = {"reduce": "gradients on their way", "gather": "parameters on their way", "exposed_wait": "exposed wait"}
STYLE = ("text{font:13px sans-serif;fill:#222}.row{text-anchor:end}.in{text-anchor:middle;fill:#fff;font-size:12px}.small{text-anchor:middle;fill:#fff;font-size:9px}"
         ".note{fill:#444}.tick{text-anchor:middle;fill:#444;font-size:12px}.t{font-size:17px;font-weight:600}")


class Row(NamedTuple):
    name: str
    categories: tuple[str, ...]
    spread: bool = False  # what overlaps lies in lanes below each other


ROWS = (Row("compute", ("data", "forward", "backward", "optimizer")), Row("gradients", ("reduce",), True), Row("parameters", ("gather",), True),
        Row("waits", ("exposed_wait",)))


class Window(NamedTuple):
    begin: float  # microseconds
    end: float

    def at(self, when: float) -> float:
        return LEFT + (min(max(when, self.begin), self.end) - self.begin) * (RIGHT - LEFT) / (self.end - self.begin)


def on_one_clock(trace: list[dict]) -> list[dict]:
    """Times since the clock's zero rather than since the file's origin."""
    origin_us = next((e["args"]["origin_ns"] for e in trace if e["name"] == "weft_trace"), 0) / 1000
    return [{**e, "ts": e["ts"] + origin_us} if "ts" in e else e for e in trace]


def end_of(event: dict) -> float:
    return event["ts"] + event["dur"]


def ranks_of(trace: list[dict]) -> list[int]:
    return sorted({e["pid"] for e in trace if e["ph"] == "X"})


def spans(trace: list[dict], rank: int, categories: tuple[str, ...], window: Window) -> list[dict]:
    """Those that can be seen: half a pixel, or more."""
    found = [e for e in trace if e["ph"] == "X" and e["pid"] == rank and e["cat"] in categories and window.at(end_of(e)) - window.at(e["ts"]) >= 0.5]
    return sorted(found, key=lambda e: e["ts"])


def in_lanes(events: list[dict]) -> list[tuple[int, dict]]:
    """Each in the first lane that is free when it begins."""
    free_at: list[float] = []
    placed = []
    for event in events:
        lane = next((i for i, free in enumerate(free_at) if free <= event["ts"]), len(free_at))
        free_at[lane:lane + 1] = [end_of(event)]
        placed.append((lane, event))
    return placed


def bar(x: float, y: float, width: float, height: float, colour: str, text: str, style: str) -> str:
    room = (5 if style == "small" else 7) * len(text) + 6
    label = f'<text x="{x + width / 2:.1f}" y="{y + height * (0.76 if style == "small" else 0.66):.1f}" class="{style}">{text}</text>' if text and width > room else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{height}" rx="2" fill="{colour}"/>{label}'


def drawn_row(row: Row, rank: int, events: list[dict], num_lanes: int, y: float, window: Window) -> list[str]:
    height = num_lanes * LANE if row.spread else ROW
    out = [f'<text x="{LEFT - 10}" y="{y + height / 2 + 4.5:.1f}" class="row">rank {rank}: {row.name}</text>',
           f'<rect x="{LEFT}" y="{y}" width="{RIGHT - LEFT}" height="{height}" fill="#f1f3f6"/>']
    for lane, event in in_lanes(events) if row.spread else [(0, event) for event in events]:
        x0, x1 = window.at(event["ts"]), window.at(end_of(event))
        colour = COLOURS[event["cat"]]
        if row.spread:
            out.append(bar(x0, y + lane * LANE + 1, x1 - x0, LANE - 2, colour, str(event["args"]["bucket"]), "small"))
        else:
            out.append(bar(x0, y, x1 - x0, ROW, colour, event["name"] if event["cat"] in ("forward", "backward") else "", "in"))
    return out


def rows_of(trace: list[dict], window: Window) -> tuple[list[str], float]:
    """All rows of all ranks, and where they end. A row that is empty in all ranks is left out."""
    ranks = ranks_of(trace)
    found = {(rank, row.name): spans(trace, rank, row.categories, window) for rank in ranks for row in ROWS}
    lanes = {row.name: max(max((lane + 1 for lane, _ in in_lanes(found[rank, row.name])), default=0) for rank in ranks) for row in ROWS}
    out, y = [], TOP
    for rank in ranks:
        for row in (row for row in ROWS if lanes[row.name] > 0):
            out += drawn_row(row, rank, found[rank, row.name], lanes[row.name], y, window)
            y += (lanes[row.name] * LANE if row.spread else ROW) + GAP
        y += BETWEEN_RANKS
    return out, y - BETWEEN_RANKS - GAP


def axis(window: Window, bottom: float) -> list[str]:
    whole_ms = (window.end - window.begin) / 1000
    step_ms = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000) if whole_ms / step <= 16)
    out = []
    for tick in range(0, int(whole_ms) + 1, step_ms):
        x = window.at(window.begin + tick * 1000)
        out.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}" stroke="#444"/><text x="{x:.1f}" y="{bottom + 19}" class="tick">{tick}</text>')
    return [*out, f'<line x1="{LEFT}" y1="{bottom}" x2="{RIGHT}" y2="{bottom}" stroke="#444"/><text x="{LEFT - 10}" y="{bottom + 19}" class="row note">ms</text>']


def step_marks(steps: list[dict], window: Window, bottom: float) -> list[str]:
    out = []
    for step in steps:
        x = window.at(step["ts"])
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="#555" stroke-dasharray="3 3"/>')
        out.append(f'<text x="{x + 4:.1f}" y="{TOP - 12}" class="note">step {step["args"]["step"]}: {step["dur"] / 1000:.0f} ms</text>')
    return out


def legend(shown: set[str], y: float) -> list[str]:
    out, x = [], LEFT
    for category in (category for category in COLOURS if category in shown):
        text = NAMES.get(category, category)
        out.append(f'<rect x="{x}" y="{y}" width="12" height="12" rx="2" fill="{COLOURS[category]}"/><text x="{x + 17}" y="{y + 11}" class="note">{text}</text>')
        x += 38 + 7 * len(text)
    return out


def picture(trace: list[dict], first: int, last: int, title: str) -> str:
    steps = [e for e in trace if e["ph"] == "X" and e["cat"] == "step" and e["pid"] == 0 and first <= e["args"]["step"] <= last]
    window = Window(min(e["ts"] for e in steps), max(end_of(e) for e in steps))
    rows, bottom = rows_of(trace, window)
    bottom += 6
    shown = {category for category in COLOURS for rank in ranks_of(trace) if spans(trace, rank, (category,), window)}
    body = [*rows, *step_marks(steps, window, bottom), *axis(window, bottom), *legend(shown, bottom + 36)]
    height = bottom + 62
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"><style>{STYLE}</style>'
    return head + f'<rect width="100%" height="100%" fill="#fff"/><text x="20" y="28" class="t">{escape(title)}</text>' + "\n".join(body) + "</svg>\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("traces", type=pathlib.Path, nargs="+")
    options.add_argument("--steps", default="20-21")
    options.add_argument("--title", default="Gradients travel while backward runs")
    o = options.parse_args()
    first, last = map(int, o.steps.split("-"))
    events = [event for path in o.traces for event in on_one_clock(json.loads(path.read_text()))]
    print(picture(events, first, last, o.title), end="")


if __name__ == "__main__":
    main()
