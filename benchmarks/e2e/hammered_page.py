#!/usr/bin/env python3
"""What a hammered live page costs the run it shows: seconds with and without hostile clients in turn, in one run.

    make && .venv/bin/python benchmarks/e2e/hammered_page.py [--for-s 180] [--per-s 100] [--results benchmarks/results]

One rank of one thread on a machine of two or more cores: the clients, who need a processor as well, and the server's threads have the other one, so
that what is left to see is what the server does to the training thread. Steps are told apart by the wall clock of their rows. The limit is 1: nothing.
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
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests" / "monitor"))
from benchmarks.e2e.pages import SHAPE, machine_line, publish  # noqa: E402
from benchmarks.e2e.train_vs_torch import machine_name  # noqa: E402
from hammer import Hammer  # noqa: E402
from live_helpers import dashboard_port  # noqa: E402

BLOCK_S = 5.0
EDGE_S = 0.5  # steps this near to a change of sides belong to neither


def hammered_blocks(o: argparse.Namespace, port: int) -> tuple[list[tuple[float, float, bool]], int]:
    blocks, opened = [], 0
    for number in range(int(o.for_s / BLOCK_S)):
        hostile, began = number % 2 == 1, time.time()
        hammer = Hammer(port, o.per_s) if hostile else None
        time.sleep(BLOCK_S)
        if hammer:
            hammer.end()
            opened += hammer.opened
        blocks.append((began, time.time(), hostile))
    return blocks, opened


def measure(o: argparse.Namespace) -> dict:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        (folder / "config.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
                                                        "weft": {"dashboard": {"port": 0}}}))
        shape = [word for name, value in SHAPE for word in (f"--{name}", str(value))]
        run = subprocess.Popen([ROOT / "build/release/bin/weft", "train", "-n", "1", "--threads", "1", *shape, "--data", "random", "--steps", "1000000", "--config", "config.json",
                                "--name", "r"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = dashboard_port(folder / "runs/r")
            time.sleep(2 * BLOCK_S)  # warm-up
            blocks, opened = hammered_blocks(o, port)
        finally:
            run.terminate()
            run.wait(60)
        rows = [json.loads(line) for line in (folder / "runs/r/metrics.jsonl").read_text().splitlines()]
    return {**judged(blocks, rows), "connections": opened, "per_s": o.per_s, "machine": machine_name(o), "load_before": load}


def judged(blocks: list[tuple[float, float, bool]], rows: list[dict]) -> dict:
    medians = []
    for began, ended, hostile in blocks:
        times = [row["step_ms"] for row in rows if began + EDGE_S + row["step_ms"] / 1e3 <= row["unix_s"] <= ended - EDGE_S]
        if times:
            medians.append((statistics.median(times), hostile))
    pairs = [b[0] / a[0] for a, b in zip(medians, medians[1:]) if not a[1] and b[1]]
    quarters = statistics.quantiles(pairs, n=4)
    return {"ratio": statistics.median(pairs), "ratio_25": quarters[0], "ratio_75": quarters[2], "pairs": len(pairs),
            "quiet_ms": statistics.median(m for m, hostile in medians if not hostile), "hammered_ms": statistics.median(m for m, hostile in medians if hostile)}


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    return f"""# A live page under fire

{machine_line(result, "one rank of one thread.")}

Command: `{command}`

GPT of 17.0M parameters, fp32. {result['pairs']} pairs of {BLOCK_S:.0f} s, one quiet, one with {result['per_s']:.0f} connections a second ({result['connections']} in all): dropped, half open, malformed, huge,
wrong tokens, paths up the tree, pages that stay.

| step under fire, of a quiet one | middle half of the pairs | quiet | under fire |
|---|---|---|---|
| **{result['ratio']:.4f}** | {result['ratio_25']:.3f} to {result['ratio_75']:.3f} | {result['quiet_ms']:.1f} ms | {result['hammered_ms']:.1f} ms |

That the losses keep their bits is a test: tests/monitor/live_run_test.py.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--for-s", type=float, default=180)
    parser.add_argument("--per-s", type=float, default=100, help="connections a second")
    parser.add_argument("--results", type=pathlib.Path, help="folder for a dated Markdown file")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(device="cpu")
    publish(parser.parse_args(), "hammered_page", measure(parser.parse_args()), report)


if __name__ == "__main__":
    main()
