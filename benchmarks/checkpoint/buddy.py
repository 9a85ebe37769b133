#!/usr/bin/env python3
"""What copies in memory cost a training step: weft with copies every so many steps and without, alternately, in one run.

    make && .venv/bin/python benchmarks/checkpoint/buddy.py [-n 2] [--every 1 --every 5] [--results benchmarks/results]

The limit of a copy is a memcpy of the rank's state. The losses of all are compared bit for bit first.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import chosen, facts_of, machine_line, parser_for, publish, ratio, work_lines  # noqa: E402
from benchmarks.e2e.train_vs_torch import write_init  # noqa: E402
from benchmarks.peers.contenders import Contender, Place, run_rounds, same_losses, summary  # noqa: E402

WITHOUT = "without"


def contenders(o: argparse.Namespace) -> list[Contender]:
    zero = {"stage": 1, "bucket": o.bucket}
    with_copies = [Contender(f"a copy every {n} steps" if n > 1 else "a copy every step", more={"weft": {"buddy": True, "buddy_every_steps": n}}, **zero) for n in o.every]
    return chosen(o, [Contender(WITHOUT, **zero), *with_copies])


def measure(o: argparse.Namespace) -> dict:
    facts = facts_of(o)
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        write_init(o, folder / "init.safetensors")
        taking_part = contenders(o)
        found = run_rounds(Place(o.weft, o.world, options=("--restarts", "1", "--resume")), taking_part, o, folder / "init.safetensors", folder)
    names = [one.name for one in taking_part]
    rows = {name: {**summary(rounds), "mean_ms": mean_ms(rounds)} for name, rounds in found.items()}
    return {"world": o.world, **facts, "same_losses": same_losses(found, names, o.world), "rows": rows}


def mean_ms(rounds: list[dict]) -> float:
    """Of all steps of a round with what lies between them, the median of the rounds."""
    return statistics.median(1e3 * one["tokens_per_step"] / one["tokens_per_s"] for one in rounds)


def table(rows: dict) -> str:
    lines = ["| | mean step, ms | median step, ms | of the rounds, ms | mean of without | median of without |", "|---|---|---|---|---|---|"]
    for name, row in rows.items():
        of_mean = f"{row['mean_ms'] / rows[WITHOUT]['mean_ms']:.3f}" if WITHOUT in rows else "-"
        lines.append(f"| {name} | {row['mean_ms']:.1f} | {row['median_ms']:.1f} | {row['lowest_ms']:.1f} to {row['highest_ms']:.1f} | {of_mean} | {ratio(row, rows, WITHOUT)} |")
    return "\n".join(lines)


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    return f"""# Copies in memory: what they cost a step

{machine_line(result, f"{result['world']} ranks of one thread.")}

Command: `{command}`

{work_lines(o, result)}
losses equal bit for bit: {'; '.join(result['same_losses']) or 'none compared'}. ZeRO-1, buckets of {o.bucket:,} elements.

{table(result['rows'])}

A copy is taken between steps and written behind the following ones, on the same {result['machine']} cores that train: where ranks have a core each
and no other, the writing is paid for as well. The mean has the steps that copy in it; the median, from every second step on, has not.
"""


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("-n", dest="world", type=int, default=2, help="ranks")
    parser.add_argument("--every", type=int, action="append", help="copy every so many steps; may be repeated (1, 5, 20)")
    o = parser.parse_args()
    o.every = o.every or [1, 5, 20]
    publish(o, f"buddy_n{o.world}", measure(o), report)


if __name__ == "__main__":
    main()
