#!/usr/bin/env python3
"""Ranks slowed down on purpose: does the monitor name the right one, and the part of the step? And is it quiet when nobody is slow?

    make && .venv/bin/python tests/monitor/slow_trials.py [--slowdowns 200] [--ranks 2] [--quiet 1000] [--json]

Each slowdown is a random rank, part of the step and 5 to 50 % of it, for 48 steps, between 64 quiet ones (slow_trial.cpp). On a machine with
neighbours a rank may well be slow without our doing; such an alarm is counted as a false one all the same.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"


def trial(slowdowns: int, ranks: int, seed: int, timeout_s: float) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        words = [BIN / "weft", "run", "-n", str(ranks), "--", BIN / "slow_trial", str(slowdowns), str(seed), folder]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=timeout_s)
        if done.returncode != 0:
            raise SystemExit(f"the trial failed:\n{(done.stdout + done.stderr)[-2000:]}")
    # weft run puts the rank in front of a line where there are several.
    return [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if '"found"' in line]


def is_right(row: dict) -> bool:
    """The largest is the one: a rank that sleeps also leaves its core to the others, which may then be quicker elsewhere."""
    first = row["found"][0] if row["found"] else {}
    return first.get("rank") == row["rank"] and first.get("phase") == row["phase"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slowdowns", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--quiet", type=int, default=1000, help="steps without any; 0: leave that out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout-s", type=float, default=3600)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    rows = trial(o.slowdowns, o.ranks, o.seed, o.timeout_s)
    right = [row for row in rows if is_right(row)]
    backward = [row for row in right if row["phase"] == "backward"]
    placed = [row for row in backward if row["found"][0]["where"] == row["where"]]
    quiet = trial(0, o.ranks, o.seed, o.timeout_s) if o.quiet else []
    alarms = sum(bool(row["found"]) for row in quiet)
    result = {"slowdowns": len(rows), "right": len(right), "backward": len(backward), "placed": len(placed), "quiet_looks": len(quiet), "false_alarms": alarms,
              "step_ms": rows[0]["step_ms"] if rows else None, "wrong": [row for row in rows if row not in right]}
    if o.json:
        print(json.dumps(result))
        return
    for row in result["wrong"]:
        print(f"wrong: {row}")
    print(f"{len(right)} of {len(rows)} slowdowns named rightly, rank and part of the step ({len(right) / max(1, len(rows)):.1%}); "
          f"of {len(backward)} in backward {len(placed)} with the right layer")
    print(f"{alarms} of {len(quiet)} looks in {8 * len(quiet)} quiet steps saw somebody slow")
    sys.exit(0 if len(right) >= 0.98 * len(rows) and alarms == 0 else 1)


if __name__ == "__main__":
    main()
