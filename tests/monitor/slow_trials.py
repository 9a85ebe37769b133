#!/usr/bin/env python3
"""Ranks slowed down on purpose: does the monitor name the right one, and the part of the step? And is it quiet when nobody is slow?

    make && .venv/bin/python tests/monitor/slow_trials.py [--slowdowns 200] [--ranks 2] [--quiet 1000] [--results DIR] [--json]

Each slowdown is a random rank, part of the step and 5 to 50 % of it, for 48 steps (slow_trial.cpp); or the link between all ranks. It is named
rightly when rank and part are right and nobody else is named beside it. 64 quiet steps follow each, at the end of which nobody may be named. On a
machine with neighbours a rank may well be slow without our doing; such an alarm is counted as a false one all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import machine_line, publish  # noqa: E402
from benchmarks.e2e.train_vs_torch import machine_name  # noqa: E402

AIM = 0.98


def trial(slowdowns: int, ranks: int, seed: int, timeout_s: float) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        words = [BIN / "weft", "run", "-n", str(ranks), "--", BIN / "slow_trial", str(slowdowns), str(seed), folder]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=timeout_s)
        if done.returncode != 0:
            raise SystemExit(f"the trial failed:\n{(done.stdout + done.stderr)[-2000:]}")
    # weft run puts the rank in front of a line where there are several.
    return [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if '"found"' in line]


def is_right(row: dict) -> bool:
    """That rank and part, and nothing else: who is named wrongly beside the right one is looked into for nothing."""
    return [(one["rank"], one["phase"]) for one in row["found"]] == [(row["rank"], row["phase"])]


def is_named(row: dict) -> bool:
    return any((one["rank"], one["phase"]) == (row["rank"], row["phase"]) for one in row["found"])


def measure(o: argparse.Namespace) -> dict:
    load = os.getloadavg()[0]
    said = trial(o.slowdowns, o.ranks, o.seed, o.timeout_s)
    rows, between = [row for row in said if row["phase"]], [row for row in said if not row["phase"]]
    right = [row for row in rows if is_right(row)]
    backward = [row for row in right if row["phase"] == "backward"]
    quiet = trial(0, o.ranks, o.seed, o.timeout_s) if o.quiet else []
    return {"slowdowns": len(rows), "right": len(right), "named": sum(map(is_named, rows)), "backward": len(backward),
            "placed": sum(row["found"][0]["where"] == row["where"] for row in backward), "quiet_steps": 8 * len(quiet),
            "false_alarms": sum(bool(row["found"]) for row in quiet), "between": len(between),
            "false_between": sum(bool(row["found"]) for row in between), "step_ms": rows[0]["step_ms"] if rows else None,
            "wrong": [row for row in rows if row not in right], "ranks": o.ranks, "machine": machine_name(o), "load_before": load}


def is_met(result: dict) -> bool:
    return (result["right"] >= AIM * result["slowdowns"] and result["placed"] >= AIM * result["backward"]
            and result["false_alarms"] == 0 and result["false_between"] == 0)


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    wrong = "".join(f"- wanted rank {row['rank']}, {row['phase']} ({row['percent']:.0f} %); found {row['found'] or 'nobody'}\n" for row in result["wrong"])
    return f"""# Ranks slowed down on purpose

{machine_line(result, f"{result['ranks']} ranks of one thread.")}

Command: `{command}`

| aim | wanted | found |
|---|---|---|
| slowdowns named rightly, rank and part of the step, and nobody else | at least {AIM:.0%} | **{result['right']} of {result['slowdowns']}** ({result['right'] / max(1, result['slowdowns']):.1%}) |
| of those in backward, the right layer | at least {AIM:.0%} | **{result['placed']} of {result['backward']}** |
| false alarms in {result['quiet_steps']} quiet steps | 0 | **{result['false_alarms']}** |
| false alarms in {result['between']} quiet stretches between slowdowns | 0 | **{result['false_between']}** |
{chr(10) + 'Not named rightly:' + chr(10) + chr(10) + wrong if wrong else ''}"""


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
