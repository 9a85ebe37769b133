#!/usr/bin/env python3
"""Ranks slowed down on purpose: does the monitor name the right one, and the part of the step? And is it quiet when nobody is slow?

    make && .venv/bin/python tests/monitor/slow_trials.py [--slowdowns 200] [--ranks 2] [--quiet 1000] [--results DIR] [--json]

Each slowdown is a random rank, part of the step and 5 to 50 % of it, for 48 steps (slow_trial.cpp); or the link between all ranks. It is named
rightly when rank and part are right and nobody else is named beside it. 64 quiet steps follow each, at the end of which nobody may be named.

On a machine with neighbours one core may be slower than another without our doing. That a rank's processor is slow counts as true where a
witness agrees: a product that the trial itself times in each step, by at least 3 % at the middle of the last 128 steps. Without its word it is a
false alarm, and so is every other name.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import machine_line, publish  # noqa: E402
from benchmarks.e2e.train_vs_torch import machine_name  # noqa: E402

AIM = 0.98
WITNESS_PERCENT = 3


def trial(slowdowns: int, ranks: int, seed: int, timeout_s: float) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        # On cores of their own, where there are enough: two ranks on one would both be slow, and rightly named so.
        bind = "cores" if len(os.sched_getaffinity(0)) >= ranks else "none"
        words = [BIN / "weft", "run", "-n", str(ranks), "--bind", bind, "--", BIN / "slow_trial", str(slowdowns), str(seed), folder]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=timeout_s)
        if done.returncode != 0:
            raise SystemExit(f"the trial failed:\n{(done.stdout + done.stderr)[-2000:]}")
    # weft run puts the rank in front of a line where there are several.
    return [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if '"found"' in line]


def is_witnessed(one: dict, row: dict) -> bool:
    """The rank's processor was slower by the word of somebody else too."""
    times = row["witness_ms"]
    others = statistics.median(ms for rank, ms in enumerate(times) if rank != one["rank"])
    return one["phase"] == "processor" and times[one["rank"]] >= others * (1 + WITNESS_PERCENT / 100)


def names_in(row: dict) -> list[tuple]:
    """Without processors that were slow indeed."""
    return [(one["rank"], one["phase"]) for one in row["found"] if not is_witnessed(one, row)]


def is_right(row: dict) -> bool:
    """That rank and part, and nothing else: who is named wrongly beside the right one is looked into for nothing."""
    return names_in(row) == [(row["rank"], row["phase"])]


def is_named(row: dict) -> bool:
    return (row["rank"], row["phase"]) in names_in(row)


def measure(o: argparse.Namespace) -> dict:
    load = os.getloadavg()[0]
    said = trial(o.slowdowns, o.ranks, o.seed, o.timeout_s)
    rows, between = [row for row in said if row["phase"]], [row for row in said if not row["phase"]]
    right = [row for row in rows if is_right(row)]
    backward = [row for row in rows if row["phase"] == "backward" and is_named(row)]
    quiet = trial(0, o.ranks, o.seed, o.timeout_s) if o.quiet else []
    return {"slowdowns": len(rows), "right": len(right), "named": sum(map(is_named, rows)), "backward": len(backward),
            "placed": sum(any(one["where"] == row["where"] for one in row["found"] if one["phase"] == "backward") for row in backward),
            "quiet_steps": 8 * len(quiet), "false_alarms": sum(bool(names_in(row)) for row in quiet), "between": len(between),
            "false_between": sum(bool(names_in(row)) for row in between), "step_ms": rows[0]["step_ms"] if rows else None,
            "witnessed": sum(is_witnessed(one, row) for row in said + quiet for one in row["found"]), "looks": len(said) + len(quiet),
            "wrong": [row for row in rows if row not in right], "false": [row for row in between + quiet if names_in(row)], "ranks": o.ranks,
            "machine": machine_name(o), "load_before": load}


def is_met(result: dict) -> bool:
    return (result["right"] >= AIM * result["slowdowns"] and result["placed"] >= AIM * result["backward"]
            and result["false_alarms"] == 0 and result["false_between"] == 0)


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    wrong = "".join(f"- wanted rank {row['rank']}, {row['phase']} ({row['percent']:.0f} %); found {names_in(row) or 'nobody'}\n" for row in result["wrong"])
    return f"""# Ranks slowed down on purpose

{machine_line(result, f"{result['ranks']} ranks of one thread, steps of {result['step_ms'] or 0:.0f} ms.")}

Command: `{command}`

| aim | wanted | found |
|---|---|---|
| slowdowns named rightly, rank and part of the step | at least {AIM:.0%} | **{result['named']} of {result['slowdowns']}** ({result['named'] / max(1, result['slowdowns']):.1%}) |
| and nobody else beside them | at least {AIM:.0%} | **{result['right']} of {result['slowdowns']}** ({result['right'] / max(1, result['slowdowns']):.1%}) |
| of those in backward, the right layer | at least {AIM:.0%} | **{result['placed']} of {result['backward']}** |
| false alarms in {result['quiet_steps']} quiet steps | 0 | **{result['false_alarms']}** |
| the same at the end of {result['between']} quiet stretches between slowdowns | 0 | **{result['false_between']}** |

A processor was named as slow, and the witness agreed, in {result['witnessed']} of {result['looks']} looks: neighbours of this machine.
{chr(10) + 'Not named, or not alone:' + chr(10) + chr(10) + wrong if wrong else ''}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slowdowns", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--quiet", type=int, default=1000, help="steps without any; 0: leave that out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout-s", type=float, default=3600)
    parser.add_argument("--results", type=pathlib.Path, help="folder for a dated Markdown file")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(device="cpu")
    o = parser.parse_args()
    result = measure(o)
    publish(o, "slow_ranks", result, report)
    sys.exit(0 if is_met(result) else 1)


if __name__ == "__main__":
    main()
