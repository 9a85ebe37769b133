#!/usr/bin/env python3
"""weft's data-parallel training against torch's, on the ranks of one host: alternately, in one run, on the same work.

    make && ninja -C build/release c10d_reducer
    .venv/bin/python benchmarks/e2e/data_parallel.py [-n 2] [--rounds 5] [--results benchmarks/results]

Peers: DistributedDataParallel over Gloo, with and without its bfloat16 hook; c10d::Reducer driven from C++ (left out where the program is
not built); one rank alone, of both; and one-rank worlds side by side, which is what the ranks would take if reducing cost nothing. A step
ends when every rank knows the mean loss. The losses of weft and of DistributedDataParallel are compared bit for bit before any time is
printed.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import chosen, facts_of, machine_line, parser_for, publish, ratio, work_lines  # noqa: E402
from benchmarks.e2e.train_vs_torch import progress, write_init  # noqa: E402
from benchmarks.peers.contenders import (REDUCER, TORCH_ALONE, TORCH_BF16, TORCH_DDP, TORCHRUN_DDP, WEFT_ALONE, WEFT_APART, Contender,  # noqa: E402
                                         Place, run_rounds, same_losses, summary)

WEFT = "weft"


def contenders(o: argparse.Namespace) -> list[Contender]:
    reducer = [REDUCER] if o.reducer.exists() else []
    if not reducer:
        progress(f"without {REDUCER.name}: {o.reducer} is not there; ninja -C build/release c10d_reducer makes it")
    every = [Contender(WEFT, bucket=o.bucket), TORCH_DDP, TORCHRUN_DDP, *reducer, Contender("weft, no overlap", overlap=False, bucket=o.bucket),
             Contender("weft over gloo", bucket=o.bucket, transport="gloo"), Contender("weft, bf16 on the wire", bucket=o.bucket, wire="bf16"), TORCH_BF16,
             WEFT_ALONE, WEFT_APART, TORCH_ALONE]
    return chosen(o, every)


def measure(o: argparse.Namespace) -> dict:
    facts = facts_of(o)
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        write_init(o, folder / "init.safetensors")
        taking_part = contenders(o)
        found = run_rounds(Place(o.weft, o.world), taking_part, o, folder / "init.safetensors", folder)
    exact = [one.name for one in taking_part if one.wire == "fp32" and not one.alone]
    return {"world": o.world, **facts, "same_losses": same_losses(found, exact, o.world), "rows": {name: summary(rounds) for name, rounds in found.items()}}


def table(rows: dict) -> str:
    lines = ["| | median step, ms | of the rounds, ms | fastest step, ms | of weft | of one rank alone | waits for communication, ms |", "|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        exposed = f"{row['exposed_comm_ms']:.1f}" if row.get("exposed_comm_ms") else "-"
        lines.append(f"| {name} | {row['median_ms']:.1f} | {row['lowest_ms']:.1f} to {row['highest_ms']:.1f} | {row['min_ms']:.1f} | {ratio(row, rows, WEFT)} "
                     f"| {ratio(row, rows, WEFT_ALONE.name)} | {exposed} |")
    return "\n".join(lines)


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    return f"""# Data-parallel training on one host: weft against torch

{machine_line(result, f"{result['world']} ranks of one thread, torch from the same installation.")}

Command: `{command}`

{work_lines(o, result)}
losses equal bit for bit: {'; '.join(result['same_losses']) or 'none compared'}. weft: buckets of {o.bucket:,} elements; torch: its own 25 MiB.

{table(result['rows'])}

"of weft" and "of one rank alone" are ratios of medians. One rank alone does the work of one rank, so 1.000 would be a free reduction on
cores that share nothing; "{WEFT_APART.name}" is the same on these cores. torch refuses its bf16 hook over Gloo by name; here it is
registered under another.
"""


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("-n", dest="world", type=int, default=2, help="ranks")
    o = parser.parse_args()
    publish(o, f"data_parallel_n{o.world}", measure(o), report)


if __name__ == "__main__":
    main()
