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
import datetime
import json
import os
import pathlib
import shlex
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.train_vs_torch import machine_name, num_params, progress, write_init  # noqa: E402
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
    return [one for one in every if not o.only or one.name in o.only]


def measure(o: argparse.Namespace) -> dict:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        write_init(o, folder / "init.safetensors")
        taking_part = contenders(o)
        found = run_rounds(Place(o.weft, o.world), taking_part, o, folder / "init.safetensors", folder)
    exact = [one.name for one in taking_part if one.wire == "fp32" and not one.alone]
    return {"world": o.world, "rounds": o.rounds, "steps": o.steps, "bucket": o.bucket, "params": num_params(o), "machine": machine_name(o), "load_before": load,
            "same_losses": same_losses(found, exact, o.world), "rows": {name: summary(rounds) for name, rounds in found.items()}}


def ratio(row: dict, rows: dict, to: str) -> str:
    return f"{row['median_ms'] / rows[to]['median_ms']:.3f}" if to in rows else "-"


def table(rows: dict) -> str:
    lines = ["| | median step, ms | of the rounds, ms | fastest step, ms | of weft | of one rank alone | waits for communication, ms |", "|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        exposed = f"{row['exposed_comm_ms']:.1f}" if row.get("exposed_comm_ms") else "-"
        lines.append(f"| {name} | {row['median_ms']:.1f} | {row['lowest_ms']:.1f} to {row['highest_ms']:.1f} | {row['min_ms']:.1f} | {ratio(row, rows, WEFT)} "
                     f"| {ratio(row, rows, WEFT_ALONE.name)} | {exposed} |")
    return "\n".join(lines)


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    return f"""# Data-parallel training on one host: weft against torch

{datetime.date.today()}, {result['machine']}, {os.cpu_count()} cores (load {result['load_before']:.1f} before the run), {result['world']} ranks of one thread, torch from the same installation.

Command: `{command}`

GPT of {result['params'] / 1e6:.1f}M parameters (dim {o.dim}, {o.layers} layers, {o.heads} heads, vocabulary {o.vocab}, sequence {o.seq}, micro-batch {o.micro_batch}), fp32,
fused AdamW everywhere, {result['steps']} steps a round, {min(5, result['steps'] // 3)} of them warm-up, {result['rounds']} rounds in turn, each a fresh process group. Same weights, same tokens;
losses equal bit for bit: {'; '.join(result['same_losses']) or 'none compared'}. weft: buckets of {o.bucket:,} elements; torch: its own 25 MiB.

{table(result['rows'])}

"of weft" and "of one rank alone" are ratios of medians. One rank alone does the work of one rank, so 1.000 would be a free reduction on
cores that share nothing; "{WEFT_APART.name}" is the same on these cores. torch refuses its bf16 hook over Gloo by name; here it is
registered under another.
"""


def page_of(text: str) -> str:
    """Lines that fit a page; rows of tables cannot be broken."""
    fold = textwrap.TextWrapper(width=150, break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if len(line) <= 160 or line.startswith("|") else fold.fill(line) for line in text.split("\n"))


def command_line(program: str, words: list[str]) -> str:
    """What to type to have this again; where the result is written to is not part of it."""
    kept = [word for i, word in enumerate(words) if word != "--results" and (i == 0 or words[i - 1] != "--results")]
    return shlex.join([program, *kept])


def parser_for(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=pathlib.Path, default=ROOT / "build/release/bin/weft")
    parser.add_argument("--reducer", type=pathlib.Path, default=ROOT / "build/release/bin/c10d_reducer", help="the peer built from benchmarks/peers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--bucket", type=int, default=1_000_000, help="weft's reduce_bucket_size, in elements")
    for name, value in (("dim", 384), ("layers", 6), ("heads", 6), ("vocab", 8192), ("seq", 64), ("micro-batch", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--only", action="append", metavar="NAME", help="this contender alone; may be repeated")
    parser.add_argument("--results", type=pathlib.Path, help="folder for a dated Markdown file")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(device="cpu", threads=1)
    return parser


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("-n", dest="world", type=int, default=2, help="ranks")
    o = parser.parse_args()
    result = measure(o)
    text = report(o, result, command_line("benchmarks/e2e/data_parallel.py", sys.argv[1:]))
    print(json.dumps({"schema": 1, **result}, indent=2) if o.json else text)
    if o.results:
        path = o.results / f"data_parallel_n{o.world}_{datetime.date.today():%Y%m%d}.md"
        path.write_text(page_of(text))
        progress(f"wrote {path}")


if __name__ == "__main__":
    main()
