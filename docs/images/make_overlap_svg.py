#!/usr/bin/env python3
"""Draws a few steps of a run from its timeline: what each rank computes, which buckets are on their way, where it waits.

    weft run --hosts a,b -- weft train ... --trace --name overlap
    docs/images/make_overlap_svg.py runs/overlap/trace/trace.rank_*.json --steps 20-21 > docs/images/overlap.svg

Files of several hosts fit together only where those share a clock, as the hosts of tools/netlab do.
"""

from __future__ import annotations

import argparse
import json
import pathlib

WIDTH, LEFT, ROW, GAP, TOP = 1100, 150, 26, 14, 64
COLOURS = {"data": "#b6bcc4", "forward": "#5b8def", "backward": "#2f5fbf", "optimizer": "#7d5fb2", "reduce": "#e08a2e", "exposed_wait": "#c8372d"}
ROWS = [("compute", ("data", "forward", "backward", "optimizer")), ("buckets", ("reduce",)), ("waits", ("exposed_wait",))]


def on_one_clock(trace: list[dict]) -> list[dict]:
    """Times since the clock's zero rather than since the file's origin."""
    origin_us = next((e["args"]["origin_ns"] for e in trace if e["name"] == "weft_trace"), 0) / 1000
    return [{**e, "ts": e["ts"] + origin_us} if "ts" in e else e for e in trace]


def spans(trace: list[dict], rank: int, categories: tuple[str, ...], begin: float, end: float) -> list[dict]:
    return [e for e in trace if e["ph"] == "X" and e["pid"] == rank and e["cat"] in categories and e["ts"] < end and e["ts"] + e["dur"] > begin]


def bar(x: float, y: float, width: float, colour: str, text: str) -> str:
    label = f'<text x="{x + width / 2:.1f}" y="{y + ROW * 0.66:.1f}" class="in">{text}</text>' if width > 7 * len(text) + 6 else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{ROW}" rx="3" fill="{colour}"/>{label}'


def label_of(event: dict) -> str:
    return str(event["args"]["bucket"]) if event["cat"] == "reduce" else "" if event["cat"] == "exposed_wait" else event["name"]


def picture(trace: list[dict], first: int, last: int) -> str:
    steps = [e for e in trace if e["ph"] == "X" and e["cat"] == "step" and e["pid"] == 0 and first <= e["args"]["step"] <= last]
    begin, end = min(e["ts"] for e in steps), max(e["ts"] + e["dur"] for e in steps)
    scale = (WIDTH - LEFT - 20) / (end - begin)
    out, y = [], TOP
    for rank in sorted({e["pid"] for e in trace}):
        for name, categories in ROWS:
            out.append(f'<text x="{LEFT - 10}" y="{y + ROW * 0.66:.1f}" class="row">rank {rank}: {name}</text>')
            out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 20}" height="{ROW}" fill="#f1f3f6"/>')
            for event in spans(trace, rank, categories, begin, end):
                x0, x1 = max(event["ts"], begin), min(event["ts"] + event["dur"], end)
                out.append(bar(LEFT + (x0 - begin) * scale, y, (x1 - x0) * scale, COLOURS[event["cat"]], label_of(event)))
            y += ROW + 4
        y += GAP
    for step in steps:
        x = LEFT + (step["ts"] - begin) * scale
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{y - GAP}" stroke="#555" stroke-dasharray="3 3"/>')
        out.append(f'<text x="{x + 4:.1f}" y="{TOP - 12}" class="note">step {step["args"]["step"]}: {step["dur"] / 1000:.0f} ms</text>')
    x = LEFT
    for name, colour in COLOURS.items():
        text = name.replace("_", " ")
        out.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/><text x="{x + 17}" y="{y + 11}" class="note">{text}</text>')
        x += 40 + 8 * len(text)
    style = "text{font:13px sans-serif;fill:#222}.row{text-anchor:end}.in{text-anchor:middle;fill:#fff;font-size:12px}.note{fill:#444}.t{font-size:17px;font-weight:600}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 28}"><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
    return head + f'<text x="20" y="28" class="t">Gradients travel while backward runs</text>{"".join(out)}</svg>\n'


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("traces", type=pathlib.Path, nargs="+")
    options.add_argument("--steps", default="20-21")
    o = options.parse_args()
    first, last = map(int, o.steps.split("-"))
    events = [event for path in o.traces for event in on_one_clock(json.loads(path.read_text()))]
    print(picture(events, first, last), end="")


if __name__ == "__main__":
    main()
