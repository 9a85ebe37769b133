#!/usr/bin/env python3
"""How long a command takes to answer: `weft --help`, `weft train --help`, a refused flag, one training step; beside Python importing torch.

    .venv/bin/python benchmarks/e2e/startup.py [--runs 40] [--json]
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ["--dim", "16", "--layers", "1", "--heads", "2", "--seq", "16", "--micro-batch", "1", "--threads", "1", "--data", "random", "--steps", "1"]


def commands(weft: str, folder: str) -> dict[str, list[str]]:
    return {
        "/bin/true": ["/bin/true"],  # the limit: starting any process
        "weft --help": [weft, "--help"],
        "weft train --help": [weft, "train", "--help"],
        "weft train --setps 3": [weft, "train", "--setps", "3"],
        "weft train, one tiny step": [weft, "train", *TINY, "--runs", folder],
        "python -c 'import torch'": [sys.executable, "-c", "import torch"],
    }


def times_ms(command: list[str], runs: int) -> list[float]:
    out = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        out.append((time.perf_counter() - start) * 1e3)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default=str(ROOT / "build/release/bin/weft"))
    parser.add_argument("--runs", type=int, default=40, help="of each quick command; the slow ones run a fifth of it")
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands(o.weft, folder).items():
            slow = "torch" in name or "step" in name
            measured = times_ms(command, max(3, o.runs // 5) if slow else o.runs)
            rows[name] = {"median_ms": statistics.median(measured), "min_ms": min(measured)}
    if o.json:
        print(json.dumps({"schema": 1, "rows": rows}, indent=2))
        return
    print(f"{'command':28s} {'median':>10s} {'fastest':>10s}")
    for name, row in rows.items():
        print(f"{name:28s} {row['median_ms']:7.1f} ms {row['min_ms']:7.1f} ms")


if __name__ == "__main__":
    main()
