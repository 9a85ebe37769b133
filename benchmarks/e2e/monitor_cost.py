#!/usr/bin/env python3
"""What monitoring costs a training step: all of it on against all off, in blocks of steps in turn, in one run.

    make && ninja -C build/release monitor_cost && .venv/bin/python benchmarks/e2e/monitor_cost.py [-n 2] [--blocks 60] [--results benchmarks/results]

On: spans, metrics.csv and .jsonl, TensorBoard events, DeepSpeed's CSV files, the trace of every step, FLOP counting, who is slow, ranks.json, the live page. Off: only
the loss is shared. Neighbouring blocks are compared, so that a machine that gets slower by the minute takes part in neither. The limit is 1: nothing.
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
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import machine_line, publish  # noqa: E402
from benchmarks.e2e.train_vs_torch import machine_name  # noqa: E402

AIM = 1.01


def config_of(folder: pathlib.Path) -> dict:
    return {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "gradient_clipping": 0,
            "zero_optimization": {"stage": 1, "overlap_comm": True, "reduce_bucket_size": 2_000_000},
            "tensorboard": {"enabled": True, "output_path": str(folder), "job_name": "tensorboard"},
            "csv_monitor": {"enabled": True, "output_path": str(folder), "job_name": "csv"}, "weft": {"dashboard": {"port": 0}}}


def measure(o: argparse.Namespace) -> dict:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        (folder / "config.json").write_text(json.dumps(config_of(folder)))
        words = [ROOT / "build/release/bin/weft", "run", "-n", o.world, "--", ROOT / "build/release/bin/monitor_cost", folder / "config.json", folder, o.blocks, o.steps]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=3000)
        if done.returncode != 0:
            raise SystemExit(f"monitor_cost failed:\n{(done.stdout + done.stderr)[-2000:]}")
    line = next(line for line in done.stdout.splitlines() if '"ratio"' in line)
    return {**json.loads(line[line.index("{"):]), "world": o.world, "machine": machine_name(o), "load_before": load}


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    met = "yes" if result["ratio"] <= AIM else "no"
    return f"""# What monitoring costs a step

{machine_line(result, f"{result['world']} ranks of one thread.")}

Command: `{command}`

GPT of 17.0M parameters (dim 384, 6 layers, 6 heads, vocabulary 8192, sequence 64, micro-batch 2), fp32, ZeRO-1; {result['blocks']} pairs of blocks of {result['steps']} steps, one with
everything on (spans, metrics, TensorBoard, CSV, trace, FLOPs, slow ranks, live page), one with nothing, in turn.

| aim | at most | found | middle half of the pairs | met |
|---|---|---|---|---|
| step with all on, of all off | {AIM} | **{result['ratio']:.4f}** | {result['ratio_25']:.3f} to {result['ratio_75']:.3f} | {met} |

Median step: {result['on_ms']:.1f} ms on, {result['off_ms']:.1f} ms off.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", dest="world", type=int, default=2, help="ranks")
    parser.add_argument("--blocks", type=int, default=60, help="pairs of blocks")
    parser.add_argument("--steps", type=int, default=8, help="of a block")
    parser.add_argument("--results", type=pathlib.Path, help="folder for a dated Markdown file")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(device="cpu")
    o = parser.parse_args()
    publish(o, f"monitor_cost_n{o.world}", measure(o), report)


if __name__ == "__main__":
    main()
