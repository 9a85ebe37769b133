#!/usr/bin/env python3
"""What gradients as int8 cost in loss: the demo GPT on text, with fp32, bf16 and int8 on the wire, from the same weights on the same batches.

    make && .venv/bin/python benchmarks/e2e/int8_loss.py [--steps 500] [--every 50] [--results benchmarks/results]

Losses are means over as many steps as lie between two rows. A run with fp32 on the wire and another seed, which decides weights and batches,
says how much of a difference is luck. Bytes are what a rank sends in a step for its gradients: the ranks of one host have the parameters in
common, so nothing else is sent. What is compressed is the same between hosts, and so are the losses. Nothing here is timed.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import facts_of, json_text, machine_line, parser_for, publish  # noqa: E402
from benchmarks.e2e.train_vs_torch import progress, shape_of  # noqa: E402

FP32, BF16, INT8, OTHER_SEED = "fp32", "bf16", "int8", "fp32, another seed"
ON_THE_WIRE = {FP32: {}, BF16: {"communication_data_type": "bf16"}, INT8: {"weft": {"compress": "int8"}}, OTHER_SEED: {}}
LIMIT_S = 3600  # of one run


def config_of(name: str, o: argparse.Namespace) -> dict:
    return {"train_micro_batch_size_per_gpu": o.micro_batch, "optimizer": {"type": "AdamW", "params": {"lr": o.lr, "weight_decay": 0.01}},
            "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": o.lr, "warmup_num_steps": 20}}, "gradient_clipping": 1.0,
            "zero_optimization": {"stage": 1, "overlap_comm": True, "reduce_bucket_size": o.bucket}, **ON_THE_WIRE[name]}


def run(name: str, o: argparse.Namespace, folder: pathlib.Path) -> dict:
    progress(f"{name}: {o.steps} steps")
    (folder / "ds_config.json").write_text(json.dumps(config_of(name, o)))
    words = [o.weft, "train", "-n", o.world, "--config", "ds_config.json", "--data", o.data, "--steps", o.steps, "--threads", 1, "--micro-batch", o.micro_batch,
             "--seed", o.seed + (name == OTHER_SEED), "--json", "-"]
    words += [word for key, value in shape_of(o).items() for word in (f"--{key}", value)]
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise SystemExit(f"{name} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    result = json.loads(done.stdout)
    means = [statistics.fmean(result["loss"][begin:begin + o.every]) for begin in range(0, o.steps - o.every + 1, o.every)]
    progress(f"  mean loss of the last {o.every} steps {means[-1]:.4f}")
    return {"means": means, "bytes_per_step": result["bytes_sent"] / o.steps, "params": result["params"]}


def measure(o: argparse.Namespace) -> dict:
    facts = facts_of(o)
    with tempfile.TemporaryDirectory() as temp:
        rows = {name: run(name, o, pathlib.Path(temp)) for name in ON_THE_WIRE}
    largest = {name: max(abs(a - b) / b for a, b in zip(rows[name]["means"], rows[FP32]["means"])) for name in ON_THE_WIRE if name != FP32}
    return {**facts, "world": o.world, "params": rows[FP32]["params"], "every": o.every, "rows": rows, "largest": largest}


def table(o: argparse.Namespace, rows: dict) -> str:
    others = [name for name in rows if name != FP32]
    lines = [f"| steps | fp32 | {' | '.join(f'{name}: difference' for name in others)} |", f"|---|---|{'---|' * len(others)}"]
    for i, loss in enumerate(rows[FP32]["means"]):
        differences = " | ".join(f"{rows[name]['means'][i] - loss:+.4f}" for name in others)
        lines.append(f"| {i * o.every + 1} to {(i + 1) * o.every} | {loss:.4f} | {differences} |")
    return "\n".join(lines)


def bytes_table(rows: dict) -> str:
    lines = ["| on the wire | bytes a rank sends in a step | of fp32 |", "|---|---|---|"]
    lines += [f"| {name} | {row['bytes_per_step']:,.0f} | {row['bytes_per_step'] / rows[FP32]['bytes_per_step']:.3f} |" for name, row in rows.items() if name != OTHER_SEED]
    return "\n".join(lines)


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    largest = result["largest"]
    return f"""# Gradients as int8: what they cost in loss

{machine_line(result, f"{result['world']} ranks of one thread.")}

Command: `{command}`

GPT of {result['params'] / 1e6:.2f}M parameters (dim {o.dim}, {o.layers} layers, {o.heads} heads, vocabulary {o.vocab}, sequence {o.seq}, micro-batch {o.micro_batch}) on text, byte by byte;
AdamW, lr {o.lr:g} after 20 steps of warm-up, gradient_clipping 1, ZeRO-1, buckets of {o.bucket:,} elements; {o.steps} steps. Losses are means over {o.every} steps.

{table(o, result['rows'])}

Farthest from fp32: int8 {largest[INT8]:.2%}, bf16 {largest[BF16]:.2%}, another seed {largest[OTHER_SEED]:.2%}.

{bytes_table(result['rows'])}
"""


def main() -> None:
    parser = parser_for(__doc__)
    parser.set_defaults(steps=500, bucket=200_000, dim=128, layers=4, heads=4, vocab=256, seq=128, micro_batch=8)
    parser.add_argument("-n", dest="world", type=int, default=2, help="ranks")
    parser.add_argument("--every", type=int, default=50, help="steps between two rows of the table")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default="corpus", help="as weft train's: corpus, or a text file or folder")
    o = parser.parse_args()
    result = measure(o)
    publish(o, f"int8_loss_n{o.world}", result, report, json=json_text(result) + "\n")


if __name__ == "__main__":
    main()
